//! The server's memory limit and eviction policy.

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
    /// The current limit; `None` if `INFO` does not contain it.
    pub(crate) fn now(context: Context<'_>) -> Option<Self> {
        let memory = ServerInfo::of(context, c"memory")?;
        Some(Self {
            bytes: memory.number(c"maxmemory")?,
            policy: memory.text(c"maxmemory_policy")?,
        })
    }

    /// Returns true if the server evicts keys at the limit.
    pub(crate) fn evicts(&self) -> bool {
        self.policy != "noeviction"
    }
}
