//! What the server does when its memory is full.

use super::Context;
use super::server_info::ServerInfo;

/// The server's `maxmemory` and `maxmemory-policy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemoryLimit {
    /// In bytes; 0 for none.
    pub(crate) bytes: u64,
    pub(crate) policy: String,
}

impl MemoryLimit {
    /// The limit that is set now; none when the server does not tell.
    pub(crate) fn now(context: Context<'_>) -> Option<Self> {
        let memory = ServerInfo::of(context, c"memory")?;
        Some(Self {
            bytes: memory.number(c"maxmemory")?,
            policy: memory.text(c"maxmemory_policy")?,
        })
    }

    /// Whether keys are thrown out to stay below the limit.
    pub(crate) fn evicts(&self) -> bool {
        self.policy != "noeviction"
    }
}
