//! Logs a warning when the server is configured to evict held locks.

use crate::server::{self, Context, GilCell, MemoryLimit, ServerEvent};

/// The policy at the last check.
static POLICY: GilCell<Option<String>> = GilCell::new(None);

/// Warns now if the policy can evict locks, and again whenever such a policy is set.
pub(super) fn load(context: Context<'_>) {
    check(context);
    server::subscribe(context, ServerEvent::Configured, check);
}

fn check(context: Context<'_>) {
    let Some(limit) = MemoryLimit::now(context) else {
        return;
    };
    let policy = Some(limit.policy.clone());
    let before = POLICY.with(context, |last| std::mem::replace(last, policy.clone()));
    if before != policy && limit.evicts() {
        server::warn(&warning(&limit));
    }
}

/// The text of the warning. The module warns even without a memory limit, because one can be set at any time.
fn warning(MemoryLimit { bytes, policy }: &MemoryLimit) -> String {
    format!(
        "held locks may be evicted, and then granted to others: maxmemory-policy is {policy} \
         (maxmemory is {bytes}). Set it to noeviction on a server that keeps locks"
    )
}
