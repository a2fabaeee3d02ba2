//! Grants that end by the clock: those with a fixed lease, and those that are kept for so long at most.

use crate::Loss;
use crate::held::Held;
use crate::request::Change;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Ends it when its time has come.
pub(crate) async fn down(held: Weak<Held>, reply_time: Duration) {
    let Some(held) = held.upgrade() else { return };
    tokio::select! {
        () = held.over().cancelled() => {}
        () = until_the_end(&held, reply_time) => {
            let may_be_kept = held.life().keep.is_some();
            held.lose(Loss::Expired);
            if may_be_kept {
                held.release_unheard();
            }
        }
    }
}

async fn until_the_end(held: &Arc<Held>, reply_time: Duration) {
    loop {
        let now = Instant::now();
        let ends = held.ends();
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
            keep: Some(Duration::ZERO),
            ..Change::default()
        };
        if held
            .wind_down(change, ends.max(now + reply_time))
            .await
            .is_err()
            && Instant::now() >= ends
        {
            return;
        }
    }
}
