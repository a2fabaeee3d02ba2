//! Records how grants end for the statistics: by a release, by the end of the lease, or by a removal.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis_lock_core::{Holder, LockId, Token, UnixTime};

use super::monotonic;
use crate::server::{self, Context, GilCell, Lost};
use crate::statistics::{self, Counter};

/// True while the module deletes the key of a released lock.
static RELEASING: AtomicBool = AtomicBool::new(false);

/// The last lock that was lost in this iteration of the event loop, and the number of its grants.
///
/// Used on servers that report an expiry only after they have removed the key. The report follows the removal directly,
/// so only the last lost lock can match it.
static LAST_LOST: GilCell<Option<(LockId, usize)>> = GilCell::new(None);

pub(super) fn load(context: Context<'_>) {
    server::count_flushes(context);
}

/// Records the release of the last hold of a grant.
pub(crate) fn released(context: Context<'_>, token: Token) {
    statistics::hold_ended(context, context.unix_millis(), token);
}

/// Records the end of a holder's lease when the key still exists.
pub(crate) fn lease_ended(context: Context<'_>, lock_id: &LockId, holder: &Holder<'_>) {
    statistics::hold_ended(context, holder.end.millis(), holder.grant.token);
    expired(context, lock_id);
}

/// Runs `delete`, which deletes the key of a released lock.
pub(super) fn while_releasing(delete: impl FnOnce()) {
    RELEASING.store(true, Ordering::Relaxed);
    delete();
    RELEASING.store(false, Ordering::Relaxed);
}

/// Returns true if the module is deleting the key of a released lock.
pub(super) fn is_releasing() -> bool {
    RELEASING.load(Ordering::Relaxed)
}

/// Records the loss of a lock without a release. The server calls this while it removes the key.
#[cold]
pub(super) fn lost<L>(lost: &Lost<'_, L>, tokens: impl Iterator<Item = Token>) {
    if lost.on_replica_or_loading() {
        return;
    }
    let context = lost.context();
    // Use the current time, not that of the command, because the server expires keys by the current time.
    let now = UnixTime::from_micros(context.unix_micros_now());
    let mut grants = 0;
    for token in tokens {
        statistics::hold_ended(context, now.millis(), token);
        grants += 1;
    }
    let lock_id = LockId::new(lost.database(), lost.key());
    match lost.has_expired(now.millis()) {
        Some(true) => (0..grants).for_each(|_| expired(context, &lock_id)),
        Some(false) => (0..grants).for_each(|_| statistics::count(Counter::Removals)),
        None => {
            (0..grants).for_each(|_| statistics::count(Counter::Removals));
            if LAST_LOST
                .with(context, |last| last.replace((lock_id, grants)))
                .is_none()
            {
                server::call_later(context, Duration::ZERO, forget_last_lost);
            }
            lost.confirm_expiry(confirm_expired);
        }
    }
}

fn expired(context: Context<'_>, lock_id: &LockId) {
    statistics::count(Counter::Expirations);
    statistics::expired(context, monotonic(), lock_id);
}

fn forget_last_lost(context: Context<'_>) {
    LAST_LOST.with(context, |last| *last = None);
}

/// Counts the last removal as an expiry, because the server has reported one for its key.
fn confirm_expired(context: Context<'_>, key: &[u8]) {
    let database = context.database();
    let last = LAST_LOST.with(context, Option::take);
    if let Some((lock_id, grants)) = last.filter(|(lock_id, _)| lock_id.is(database, key)) {
        for _ in 0..grants {
            statistics::uncount(Counter::Removals);
            expired(context, &lock_id);
        }
    }
}
