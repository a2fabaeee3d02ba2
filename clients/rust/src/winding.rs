//! Grants that end by the clock: those with a fixed lease, and those that are kept for so long at most.

use crate::Loss;
use crate::held::Held;
use crate::request::Change;
use crate::server::{Route, release_rest};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Before what has failed is tried again.
const PAUSE: Duration = Duration::from_millis(50);

/// Ends it when its time has come.
pub(crate) async fn down(held: Weak<Held>, route: Weak<Route>, reply_time: Duration) {
    let Some(held) = held.upgrade() else { return };
    tokio::select! {
        () = held.over().cancelled() => {}
        () = until_the_end(&held, reply_time) => {
            // The server may have it for longer than that.
            let is_past = held.ends().is_some_and(|ends| Instant::now() >= ends);
            let stands = held.life().keep.is_some() || is_past;
            held.lose(Loss::Expired);
            if stands && let Some(route) = route.upgrade() {
                release_rest(&route, &held, reply_time);
            }
        }
    }
}

async fn until_the_end(held: &Arc<Held>, reply_time: Duration) {
    loop {
        let now = Instant::now();
        // A fixed lease ends by itself before that, or is released then.
        let ends = held.ends().filter(|_| held.life().keep.is_some());
        let due = match ends {
            None => held.known_until(),
            Some(ends) if held.is_winding_down() => ends,
            Some(ends) => ends.checked_sub(held.life().lease).unwrap_or(now),
        };
        if now < due {
            tokio::select! {
                () = sleep_until(due) => {}
                () = held.changed() => {}
            }
            continue;
        }
        let Some(ends) = ends.filter(|_| !held.is_winding_down()) else {
            return;
        };
        // The last lease, which the server is not to renew.
        let change = Change {
            lease: Some(
                ends.saturating_duration_since(now)
                    .max(Duration::from_millis(1)),
            ),
            ..Change::UNKEPT
        };
        // No longer than any call: others about this grant come after it.
        let until = ends.min(now + reply_time);
        if held.renew(change, until).await.is_err() {
            if Instant::now() >= ends {
                return;
            }
            sleep(PAUSE).await;
        }
    }
}
