//! A warning for the operator: a held lock is a key with a TTL, and keys can be evicted.

use crate::server::{self, Context, GilCell, MemoryLimit, ServerEvent};

/// The policy that was looked at last.
static POLICY: GilCell<Option<String>> = GilCell::new(None);

/// Warns now, and whenever another policy is set that evicts.
pub(super) fn load(context: Context<'_>) {
    look(context);
    server::subscribe(context, ServerEvent::Configured, look);
}

fn look(context: Context<'_>) {
    let Some(limit) = MemoryLimit::now(context) else {
        return;
    };
    let policy = Some(limit.policy.clone());
    let before = POLICY.with(context, |last| std::mem::replace(last, policy.clone()));
    if before != policy && limit.evicts() {
        server::warn(&warning(&limit));
    }
}

/// Also where no limit is set yet: it may be set at any time.
fn warning(MemoryLimit { bytes, policy }: &MemoryLimit) -> String {
    format!(
        "held locks may be evicted, and then granted to others: maxmemory-policy is {policy} \
         (maxmemory is {bytes}). Set it to noeviction on a server that keeps locks"
    )
}
