//! Renewing: one task for all locks of a client.

use crate::background::PATIENCE;
use crate::held::Held;
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
    // The server may count it as held for a moment more. Nobody needs it.
    if held.loss() == Some(Loss::Expired) {
        held.release_all(Instant::now() + PATIENCE).await;
    }
}

/// Renews when a third of the lease has passed, and again soon where that fails, for as long as the
/// lease lasts. A lock without renewal is only watched.
async fn renew_until_lost(held: &Held) {
    let mut again = None;
    loop {
        let deadline = held.deadline();
        let due = again.or(held.next_renewal()).unwrap_or(deadline);
        tokio::select! {
            () = sleep_until(due.min(deadline)) => {}
            () = held.changed() => {
                again = None;
                continue;
            }
        }
        let now = Instant::now();
        let deadline = held.deadline();
        if now >= deadline {
            held.lose(Loss::Expired);
            return;
        }
        if again.or(held.next_renewal()).is_none_or(|due| now < due) {
            continue; // re-entered in the meantime
        }
        match timeout_at(deadline, held.renew(None, now)).await {
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
