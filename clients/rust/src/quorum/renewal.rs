//! Renewing: one task for all locks on a quorum.

use crate::held::Held;
use crate::request::Change;
use crate::{Error, Loss};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Looks after every lock that comes in, until it is released or lost.
pub(crate) async fn look_after(mut new: UnboundedReceiver<Arc<Held>>) {
    let mut locks = FuturesUnordered::new();
    let mut more_to_come = true;
    while more_to_come || !locks.is_empty() {
        tokio::select! {
            held = new.recv(), if more_to_come => match held {
                Some(held) => locks.push(keep(held)),
                None => more_to_come = false,
            },
            Some(()) = locks.next() => {}
        }
    }
}

async fn keep(held: Arc<Held>) {
    tokio::select! {
        () = held.over().cancelled() => return,
        () = renew_until_lost(&held) => {}
    }
    // The servers may count it as held for a moment more. Nobody needs it.
    if held.loss() == Some(Loss::Expired) {
        let _ = held.release_all().await;
    }
}

/// When the lease is to begin anew: when a third of it has passed. Not where it is fixed, nor when it
/// would outlive the time for which it is kept at most.
fn next_renewal(held: &Held) -> Option<Instant> {
    let life = held.life();
    let deadline = held.known_until();
    let is_last = held.ends().is_some_and(|ends| deadline >= ends);
    let due = deadline.checked_sub(life.lease * 2 / 3).unwrap_or(deadline);
    (life.keep.is_some() && !is_last).then_some(due)
}

/// Renews, and again soon where that fails, for as long as the lease lasts. A lock without renewal is only
/// watched.
async fn renew_until_lost(held: &Arc<Held>) {
    let mut again = None;
    loop {
        let deadline = held.known_until();
        let due = again.or(next_renewal(held)).unwrap_or(deadline);
        tokio::select! {
            () = sleep_until(due.min(deadline)) => {}
            () = held.changed() => {
                again = None;
                continue;
            }
        }
        let now = Instant::now();
        let deadline = held.known_until();
        if now >= deadline {
            held.lose(Loss::Expired);
            return;
        }
        if again.or(next_renewal(held)).is_none_or(|due| now < due) {
            continue; // re-entered in the meantime
        }
        match timeout_at(deadline, held.renew(Change::default(), now)).await {
            Ok(Ok(())) => again = None,
            Ok(Err(Error::Lost(_))) => return,
            Ok(Err(error)) => {
                tracing::warn!(key = %held.key(), %error, "a renewal failed");
                again = Some(Instant::now() + pause(deadline - now));
            }
            Err(_) => {}
        }
    }
}

/// The pause after a renewal that failed: a tenth of the time that was left.
fn pause(left: Duration) -> Duration {
    const SHORTEST: Duration = Duration::from_millis(5);
    const LONGEST: Duration = Duration::from_secs(1);
    (left / 10).clamp(SHORTEST, LONGEST)
}
