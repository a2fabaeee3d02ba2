//! How grants end: given back by their owner, their lease over, or taken away.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis_lock_core::{Place, Token, UnixTime};

use super::monotonic;
use crate::server::{self, Context, GilCell, Lost};
use crate::statistics::{self, Counter};

/// The module itself deletes a key, for a lock that was given back.
static GIVING_BACK: AtomicBool = AtomicBool::new(false);

/// The lock that was taken away last, in this turn of the event loop, where the server tells only
/// afterwards whether its lease was over: at once, so that what expires later is something else.
static LAST_TAKEN: GilCell<Option<Place>> = GilCell::new(None);

pub(super) fn load(context: Context<'_>) {
    server::count_flushes(context);
}

/// The last hold of a grant was given back.
pub(crate) fn given_back(context: Context<'_>, token: Token) {
    statistics::hold_ended(context, context.unix_millis(), token);
}

/// Deletes a key because its lock was given back.
pub(super) fn while_giving_back(delete: impl FnOnce()) {
    GIVING_BACK.store(true, Ordering::Relaxed);
    delete();
    GIVING_BACK.store(false, Ordering::Relaxed);
}

/// Whether the key that is losing its lock was given back.
pub(super) fn is_given_back() -> bool {
    GIVING_BACK.load(Ordering::Relaxed)
}

/// A key is losing its lock, and was not given back. Called in the middle of that.
#[cold]
pub(super) fn taken_away(lost: &Lost<'_>, token: Token) {
    if lost.as_told() {
        return;
    }
    let context = lost.context();
    // The server deletes what has expired by this moment, not by that of the last command.
    let now = UnixTime::from_micros(context.unix_micros_now());
    statistics::hold_ended(context, now.millis(), token);
    let place = Place {
        database: lost.database(),
        key: lost.key().into(),
    };
    match lost.has_expired(now.millis()) {
        Some(true) => expired(context, &place),
        Some(false) => statistics::count(Counter::Removals),
        None => {
            statistics::count(Counter::Removals);
            if LAST_TAKEN
                .with(context, |last| last.replace(place))
                .is_none()
            {
                server::call_later(context, Duration::ZERO, forget_last_taken);
            }
            lost.tell_if_expired(it_was_the_lease);
        }
    }
}

fn expired(context: Context<'_>, place: &Place) {
    statistics::count(Counter::Expirations);
    statistics::expired(context, monotonic(), place);
}

fn forget_last_taken(context: Context<'_>) {
    LAST_TAKEN.with(context, |last| *last = None);
}

/// The key that was deleted just now had expired.
fn it_was_the_lease(context: Context<'_>, key: &[u8]) {
    let database = context.database();
    let last = LAST_TAKEN.with(context, Option::take);
    if let Some(place) = last.filter(|place| place.is(database, key)) {
        statistics::uncount(Counter::Removals);
        expired(context, &place);
    }
}
