//! An acquire that nobody wants to hear of any more, or whose outcome is not known.

use super::calls::{SentTo, behind, call, call_own};
use super::commands::{Call, granted, release, release_all};
use super::direct::Times;
use super::line::Line;
use super::{CallError, Direct, Link, Node, Own, Route};
use crate::background::Background;
use crate::owner::Owner;
use crate::registry::Turn;
use crate::request::{Grant, Life, Over, Request};
use crate::{Error, Loss};
use futures_util::future::Either;
use redis::Value;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout_at};

/// How often the server is told again, while the call that waits has not been answered.
const AGAIN: Duration = Duration::from_millis(50);

/// Cancels an acquire when it is dropped unsettled, in the background.
pub(crate) struct Pending {
    route: Arc<Route>,
    background: Background,
    times: Times,
    key: Vec<u8>,
    owner: String,
    whose: Owner,
    life: Life,
    /// The connection on which it waits.
    waits_on: Option<(Arc<Node>, Link)>,
    /// What comes there, where it is needed in any case.
    answer: Option<JoinHandle<Result<Value, CallError>>>,
    /// What it has got, by the last call that waited, where its owner comes back.
    granted: Option<Grant>,
    /// Something has been sent.
    pub(crate) is_sent: bool,
    /// Where the last call waited, if one did.
    waited_at: Option<Arc<Node>>,
    /// Where the last call went that does not wait.
    pub(crate) sent_to: SentTo,
    /// An earlier call had no answer.
    pub(crate) is_unheard: bool,
    /// The caller knows what came of it, or sees to it.
    pub(crate) settled: bool,
    /// Of a name that comes back: nobody else acquires for it before this is over.
    turn: Option<Turn>,
    over: Option<Over>,
}

impl Pending {
    pub(crate) fn new(direct: &Direct, request: &Request, turn: Option<Turn>) -> Self {
        Self {
            route: Arc::clone(&direct.route),
            background: direct.background.clone(),
            times: direct.times,
            key: request.key.clone(),
            owner: request.owner.clone(),
            whose: request.whose.clone(),
            life: request.life,
            waits_on: None,
            waited_at: None,
            answer: None,
            granted: None,
            is_sent: false,
            sent_to: None,
            is_unheard: false,
            settled: false,
            turn: turn.filter(|_| request.whose.is_named()),
            over: request.over.clone(),
        }
    }

    /// A call is about to wait there. The answer to a name that comes back is read also when nobody waits for it any
    /// more: it is undone by its token.
    pub(crate) fn waits(
        &mut self,
        node: &Arc<Node>,
        link: &Link,
        call: impl Future<Output = Result<Value, CallError>> + Send + 'static,
    ) -> impl Future<Output = Result<Value, CallError>> {
        self.is_sent = true;
        self.granted = None;
        self.waits_on = Some((Arc::clone(node), link.clone()));
        self.waited_at = Some(Arc::clone(node));
        if !self.whose.is_named() {
            return Either::Left(call);
        }
        let answer = self.answer.insert(tokio::spawn(call));
        Either::Right(async move { answer.await.unwrap_or_else(|_| Err(CallError::closed())) })
    }

    /// It is answered with this.
    pub(crate) fn has_got(&mut self, grant: &Grant) {
        self.granted = self.whose.identity().map(|_| grant.clone());
    }

    /// It has been answered, or its connection given up.
    pub(crate) fn waits_no_more(&mut self) {
        self.waits_on = None;
        self.answer = None;
    }

    /// Comes after what has been sent so far. Whether all of it has been answered, so that nothing comes late.
    async fn cancel(&mut self) -> bool {
        tracing::debug!(owner = self.owner, "an acquire is cancelled");
        let until = Instant::now() + self.times.release;
        let command = release_all(&self.key, &self.owner);
        // What a wait gets is not kept.
        let waits = self.waits_on.is_some();
        let release = async || {
            let answered = call(&self.route, &self.key, &command, until).await;
            if let Err(error) = &answered.outcome {
                tracing::debug!(owner = self.owner, %error, "calling off an acquire");
                if !waits {
                    leave_kept(&self.route, &self.key, error).await;
                }
            }
            !answered.repeated && !matches!(answered.outcome, Err(Error::Unavailable(_)))
        };
        let Some((node, link)) = self.waits_on.take() else {
            return release().await;
        };
        // The release makes the server answer the call that waits. What is sent behind that call is
        // answered after it: then all is over, and a grant of the last moment can be given back.
        let patience = Instant::now() + self.times.reply;
        let ping = Call::words(&["PING"]);
        let behind = link.send(&ping);
        tokio::pin!(behind);
        let mut is_answered = true;
        while Instant::now() < patience {
            is_answered &= release().await;
            tokio::select! {
                _ = &mut behind => {
                    if !link.is_closed() {
                        node.give_back(link.clone());
                    }
                    return is_answered & release().await;
                }
                // The release may have come before the call that it was to end.
                () = sleep(AGAIN) => {}
            }
        }
        link.close();
        release().await;
        false
    }

    /// The same for a name that comes back: sent once, behind what has been sent on the keeper, and not when that has
    /// closed: somebody else may have it by then. What may be held otherwise ends with its lease.
    async fn cancel_once(&mut self) {
        let patience = Instant::now() + self.times.reply;
        let told = timeout_at(patience, self.tell_keeper()).await;
        tracing::debug!(owner = self.owner, ?told, "an acquire is cancelled");
        leave_refused(&self.route, &self.key, told).await;
        let Some(((node, link), answer)) = self.waits_on.take().zip(self.answer.take()) else {
            return;
        };
        let sent = Instant::now();
        match timeout_at(patience, answer).await {
            Ok(Ok(answer)) => {
                let got = answer
                    .ok()
                    .and_then(|it| granted(&self.key, sent, &it).ok()?);
                self.granted = got.map(|it| it.grant);
                if !link.is_closed() {
                    node.give_back(link);
                }
            }
            _ => link.close(),
        }
    }

    async fn tell_keeper(&self) -> Option<Result<Value, CallError>> {
        let command = release_all(&self.key, &self.owner);
        let Some(node) = &self.waited_at else {
            return behind(&self.route, &self.key, &self.sent_to, &command).await;
        };
        // Nobody has kept here what a wait gets.
        let (own, sent) = (self.own(None), &mut None);
        let line = Line::of(&self.route, &self.key, node).await?;
        Some(line.send_own(&command, Some(&own), sent).await)
    }

    fn own(&self, token: Option<u64>) -> Own<'_> {
        Own {
            owner: &self.owner,
            token,
            kept_by: Weak::new(),
        }
    }

    /// Gives back what it has got. That can be repeated; where no answer comes, who gets the same grant again
    /// is told to let it be. Whether it has been answered.
    async fn give_back(&self, grant: &Grant) -> bool {
        let until = Instant::now() + self.times.release;
        let place = self.turn.as_ref().map(Turn::place);
        if let Some(place) = place {
            place.releases(grant.token);
        }
        let own = self.whose.is_named().then(|| self.own(Some(grant.token)));
        let command = release(grant, 0);
        let answered = call_own(&self.route, &self.key, own.as_ref(), &command, until).await;
        if let Err(error) = &answered.outcome {
            leave_kept(&self.route, &self.key, error).await;
        }
        if let (Some(place), Err(Error::Lost(Loss::KeptElsewhere))) = (place, &answered.outcome) {
            place.leaves(grant.token); // it is somebody else's
        }
        let is_answered = !matches!(answered.outcome, Err(Error::Unavailable(_)));
        if let (Some(place), false) = (place, is_answered) {
            place.stays(self.life, &self.background);
        }
        is_answered
    }

    async fn undo(self) {
        match self.turn.clone() {
            Some(turn) => turn.undo(self.undo_all()).await,
            None => self.undo_all().await,
        }
    }

    async fn undo_all(mut self) {
        if self.granted.is_none() && self.whose.is_named() {
            self.cancel_once().await;
        }
        let is_over = match self.granted.take() {
            Some(grant) => self.give_back(&grant).await,
            None if self.whose.is_named() => true,
            None => self.cancel().await,
        };
        if let Owner::Task(task) = &self.whose
            && is_over
        {
            task.has_called_off(&self.owner);
        }
    }
}

/// What the keeper was told once may be refused. Where there is no answer it is on its way still, and nothing may
/// overtake it.
pub(super) async fn leave_refused(
    route: &Route,
    key: &[u8],
    told: Result<Option<Result<Value, CallError>>, Elapsed>,
) {
    if let Ok(Some(Err(error))) = told
        && !error.may_have_been_done()
    {
        leave_kept(route, key, &error.into()).await;
    }
}

/// What could not be released, for this reason, may be kept by the connection that is open: for nobody.
async fn leave_kept(route: &Route, key: &[u8], error: &Error) {
    if !matches!(error, Error::Lost(_))
        && let Ok(node) = route.node(key).await
        && let Some(keeper) = node.open_keeper().await
    {
        keeper.link.close();
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.settled || !self.is_sent {
            return;
        }
        if let Owner::Task(task) = &self.whose {
            task.calls_off(&self.owner);
        }
        let rest = Self {
            route: Arc::clone(&self.route),
            background: self.background.clone(),
            times: self.times,
            key: std::mem::take(&mut self.key),
            owner: std::mem::take(&mut self.owner),
            whose: self.whose.clone(),
            life: self.life,
            waits_on: self.waits_on.take(),
            waited_at: self.waited_at.take(),
            answer: self.answer.take(),
            granted: self.granted.take(),
            is_sent: true,
            sent_to: self.sent_to.take(),
            is_unheard: self.is_unheard,
            settled: true,
            turn: self.turn.take(),
            over: self.over.take(),
        };
        self.background.start(rest.undo());
    }
}
