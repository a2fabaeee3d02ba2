//! Grants whose keeper has closed: nothing is lost yet. Each is renewed on the next one, and the answer
//! tells of it.

use super::calls::{Pauses, once_own, until_answered};
use super::commands::renew;
use super::keeper::{Kept, STOOD_STILL};
use super::line::Line;
use super::{CallError, Route};
use crate::background::Background;
use crate::held::Held;
use crate::request::Change;
use crate::{Error, Loss};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, timeout_at};

/// Serves as long as the servers are used.
pub(super) async fn serve(
    mut orphans: UnboundedReceiver<Kept>,
    route: Weak<Route>,
    reply_time: Duration,
    background: Background,
) {
    while let Some(kept) = orphans.recv().await {
        let Some(route) = route.upgrade() else { return };
        background.start_service(bring_back(route, kept, reply_time));
    }
}

async fn bring_back(route: Arc<Route>, kept: Kept, reply_time: Duration) {
    let all = kept.len();
    let each = kept
        .into_iter()
        .map(|held| bring_back_one(&route, held, reply_time));
    let mut each: FuturesUnordered<_> = each.collect();
    let mut back = 0;
    while let Some(is_back) = each.next().await {
        back += usize::from(is_back);
    }
    tracing::info!(locks = all, kept = back, "locks are kept again");
}

/// Until it is kept again, lost or released: whether it is kept.
async fn bring_back_one(route: &Arc<Route>, held: Arc<Held>, reply_time: Duration) -> bool {
    let mut pauses = Pauses::default();
    // Granted to a process that stood still, to read what has come.
    let mut grace: Option<Instant> = None;
    loop {
        let known = grace.unwrap_or_else(|| held.known_until());
        let outcome = tokio::select! {
            biased;
            () = held.over().cancelled() => return false,
            outcome = timeout_at(known, bring_back_once(route, &held)) => outcome,
        };
        let error = match outcome {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => Some(error),
            Err(_) => None,
        };
        match error {
            Some(CallError::Refused(Error::Lost(loss))) => {
                held.lose(loss);
                return false;
            }
            Some(error) => tracing::debug!(key = %held.key(), ?error, "a lock is not kept yet"),
            None => {}
        }
        let now = Instant::now();
        if now >= known {
            if grace.is_none() && now > known + STOOD_STILL {
                grace = Some(now + reply_time);
                continue;
            }
            held.lose(Loss::Expired);
            // The server may count it as held for a moment more. Nobody needs it.
            release_rest(route, &held, reply_time);
            return false;
        }
        tokio::select! {
            () = held.over().cancelled() => return false,
            () = pauses.take(known) => {}
        }
    }
}

/// Releases what is lost by the clock alone, with nobody waiting for it.
pub(crate) fn release_rest(route: &Arc<Route>, held: &Arc<Held>, reply_time: Duration) {
    if held.is_known_to_others() {
        let last = release_last(Arc::clone(route), Arc::clone(held), reply_time);
        held.background().start(last);
    } else {
        held.release_unheard();
    }
}

/// Somebody else may keep it by now: then it is his. Or the owner has it here again. Where that cannot be known, it ends
/// by itself.
async fn release_last(route: Arc<Route>, held: Arc<Held>, reply_time: Duration) {
    let until = Instant::now() + reply_time;
    let Ok(turn) = held.turn(until).await else {
        return;
    };
    if !turn.place().is_held(held.grant().token) {
        turn.undo(look_and_release(&route, &held, until)).await;
    }
}

async fn look_and_release(route: &Route, held: &Held, until: Instant) {
    let look = async || {
        let line = Line::to(route, &held.grant().key).await?;
        match held.own() {
            Some(own) => line.look(&own).await,
            None => Ok(true),
        }
    };
    match until_answered(until, look).await {
        Ok(true) => {
            let _ = held.release_all().await;
        }
        Ok(false) => held.keeps_no_more(),
        Err(_) => {}
    }
}

/// The next keeper has it from now on, unless it is being left.
pub(super) async fn bring_back_once(route: &Route, held: &Arc<Held>) -> Result<(), CallError> {
    // A change of the grant comes before or after this: what has been left to somebody else is kept no more.
    let _calls = held.calls().await;
    if held.is_winding_down() {
        return Ok(());
    }
    renew_once(route, held).await
}

/// The keeper of its server has it from now on, unless another connection has taken it over.
pub(super) async fn renew_once(route: &Route, held: &Arc<Held>) -> Result<(), CallError> {
    let life = held.life();
    let change = Change {
        keep: Some(life.keep.unwrap_or_default()),
        ..Change::default()
    };
    let sent = Instant::now();
    let (_, keeper) = once_own(route, held, &renew(held.grant(), change)).await?;
    held.known_since(sent);
    // When it has closed again by now, it is given on like the others.
    if held.kept_by(&keeper) {
        Ok(())
    } else {
        Err(CallError::closed())
    }
}
