//! Grants of short waits: a lock that is held for a moment is not handed to the keeper at all.

use super::rescue::renew_once;
use super::{Direct, Route};
use crate::held::Held;
use crate::request::{Granted, Request};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};

/// What is held for longer is worth a call.
const MOMENT: Duration = Duration::from_millis(100);

/// Whether the reply to a wait tells enough of the grant, as it came so soon after the sending of the wait. A
/// fixed lease is to begin when the caller is told, and replicas take their time.
pub(super) fn is_known(request: &Request, granted: &Granted) -> bool {
    request.life.keep.is_some()
        && request.replicas == 0
        && Instant::now() < sure_until(granted.known_until, request.life.lease)
}

/// A third of the lease from when the call was sent that told of it.
fn sure_until(known_until: Instant, lease: Duration) -> Instant {
    known_until
        .checked_sub(lease / 3 * 2)
        .unwrap_or(known_until)
}

impl Direct {
    /// Hands it to the keeper, unless it is over before.
    pub(super) fn take_over_later(&self, held: &Arc<Held>) {
        let sure = sure_until(held.known_until(), held.life().lease);
        let due = sure.min(Instant::now() + MOMENT);
        let over = held.over().clone();
        let (held, route) = (Arc::downgrade(held), Arc::downgrade(&self.route));
        let orphans = self.orphans.clone();
        let takeover = async move {
            sleep_until(due).await;
            if let (Some(held), Some(route)) = (held.upgrade(), route.upgrade())
                && !take_over(&route, &held).await
            {
                // Nobody listens when the client is gone.
                let _ = orphans.send(vec![held]);
            }
        };
        self.background.start_service(async move {
            tokio::select! {
                biased;
                () = over.cancelled() => {}
                () = takeover => {}
            }
        });
    }
}

/// Whether that has been seen to. A change of the grant comes before or after it, not in between.
async fn take_over(route: &Route, held: &Arc<Held>) -> bool {
    let _calls = held.calls().await;
    let is_kept = held.keeper().is_some() || held.is_winding_down();
    is_kept
        || timeout_at(held.known_until(), renew_once(route, held))
            .await
            .is_ok_and(|renewed| renewed.is_ok())
}
