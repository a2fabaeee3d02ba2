//! Locks kept by one server at a time: a single one, a primary, a node of a cluster.

use super::calls::{Pauses, SentTo, behind, call, call_own, call_to, until_answered};
use super::cancel::{Pending, leave_refused};
use super::commands::{Call, acquire, enter, fence, release, renew};
use super::keeper::Kept;
use super::waiting::Lines;
use super::{CallError, Common, Keeper, Own, Route, rescue, takeover};
use crate::backend::{Answer, Backend, Obtained};
use crate::background::Background;
use crate::held::Held;
use crate::observer::Reports;
use crate::registry::Turn;
use crate::request::{Change, Grant, Mode, Request, Wait};
use crate::{Error, Loss};

use futures_util::future::join;
use redis::{RedisError, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

/// How long what may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// A reply, connecting included.
    pub(crate) reply: Duration,
    /// A release, however often it is sent.
    pub(crate) release: Duration,
    pub(crate) close: Duration,
}

/// The backend for one server at a time.
pub(crate) struct Direct {
    pub(crate) route: Arc<Route>,
    pub(crate) background: Background,
    pub(crate) times: Times,
    lines: Lines,
    pub(super) orphans: mpsc::UnboundedSender<Kept>,
}

impl Direct {
    /// One that looks after what its keepers lose.
    pub(crate) fn new(
        route: impl FnOnce(&Common) -> Result<Route, RedisError>,
        background: &Background,
        times: Times,
        reports: &Reports,
    ) -> Result<Self, RedisError> {
        let (orphans, to_bring_back) = mpsc::unbounded_channel();
        let common = Common {
            reply_time: times.reply,
            background: background.clone(),
            reports: reports.clone(),
            orphans,
        };
        let direct = Self::at(Arc::new(route(&common)?), &common, times);
        direct.background.start_service(rescue::serve(
            to_bring_back,
            Arc::downgrade(&direct.route),
            times.reply,
            direct.background.clone(),
        ));
        Ok(direct)
    }

    pub(crate) fn at(route: Arc<Route>, common: &Common, times: Times) -> Self {
        Self {
            route,
            background: common.background.clone(),
            times,
            lines: Lines::default(),
            orphans: common.orphans.clone(),
        }
    }

    /// It is kept where it was granted, unless that has closed by now.
    fn look_after_kept(&self, held: &Arc<Held>, keeper: Option<Arc<Keeper>>) {
        if let Some(keeper) = keeper
            && held.life().keep.is_some()
            && !held.kept_by(&keeper)
        {
            // Nobody listens when the client is gone.
            let _ = self.orphans.send(vec![Arc::clone(held)]);
        }
    }

    /// A call that is answered with the grant as it stands then.
    async fn change(&self, grant: &Grant, call: &Call, until: Instant) -> Result<Obtained, Error> {
        let answered = self::call(&self.route, &grant.key, call, until).await;
        answered.changed(&grant.key)
    }

    /// First without waiting, on the keeper: most locks are free. Then in line.
    async fn obtain(
        &self,
        request: &Request,
        pending: &mut Pending,
    ) -> Result<Option<Obtained>, Error> {
        let least = Instant::now() + self.times.reply;
        let (waits, tried_until) = match request.wait {
            Wait::Now(end) => (false, end),
            Wait::Until(end) => (true, end.max(least)),
            Wait::Forever => (true, far_away()),
        };
        // A name that comes back may have an undo before this on the keeper.
        let comes_behind = request.whose.is_named();
        if request.replicas == 0 && (!waits || comes_behind || !self.lines.has(&request.key)) {
            pending.is_sent = true;
            let (route, command) = (&self.route, acquire(request));
            let sent_to = &mut pending.sent_to;
            let answered = call_to(route, &request.key, &command, tried_until, sent_to).await;
            pending.is_unheard = answered.repeated;
            let obtained = answered.granted(&request.key)?;
            if obtained.is_some() || !waits {
                return Ok(obtained);
            }
        }
        if request.replicas > 0 && comes_behind {
            let ping = Call::words(&["PING"]);
            call(&self.route, &request.key, &ping, least)
                .await
                .outcome?;
        }
        let _in_line = waits.then(|| self.lines.join(&request.key));
        let end = match request.wait {
            Wait::Now(end) => end,
            // What comes in the last moment is seen to in the time of a reply.
            Wait::Until(end) => end + self.times.reply,
            Wait::Forever => far_away(),
        };
        let waiting = timeout_at(end, self.wait_in_line(request, pending)).await;
        waiting.unwrap_or_else(|_| Err(CallError::silence().into()))
    }

    async fn wait_in_line(
        &self,
        request: &Request,
        pending: &mut Pending,
    ) -> Result<Option<Obtained>, Error> {
        let until = request.wait.end();
        let mut pauses = Pauses::default();
        let mut error: Option<CallError> = None;
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return error.map_or(Ok(None), |error| Err(error.into()));
            }
            match self.wait_once(request, request.wait, pending).await {
                Ok(None) => return Ok(None),
                Ok(Some(granted)) if takeover::is_known(request, &granted) => {
                    let keeper = None;
                    return Ok(Some(Obtained { granted, keeper }));
                }
                // When the grant was made is not known: the lease that counts begins now.
                Ok(Some(granted)) => match self.begin(request, &granted.grant).await {
                    Ok(obtained) => return Ok(Some(obtained)),
                    Err(error @ Error::Lost(Loss::KeptElsewhere)) => return Err(error),
                    // It ended before we knew of it: back into the line.
                    Err(Error::Lost(loss)) => tracing::debug!(%loss, "a grant came too late"),
                    Err(error) => return Err(error),
                },
                Err(CallError::Refused(error)) => return Err(error),
                Err(other) => {
                    tracing::debug!(error = ?other, "a wait begins again");
                    pending.is_unheard |= other.may_have_been_done();
                    error = Some(other);
                    pauses.take(until.unwrap_or_else(far_away)).await;
                }
            }
        }
    }

    /// What was granted on a connection that waits goes over to the keeper.
    async fn begin(&self, request: &Request, grant: &Grant) -> Result<Obtained, Error> {
        let change = Change {
            keep: request.life.keep,
            ..Change::default()
        };
        let until = Instant::now() + self.times.reply;
        // Who has asked for it later, in this name, has it. With replicas, or a fixed lease, this may be what asks.
        let is_later = request.whose.is_named() && change.keep.is_some() && request.replicas == 0;
        let own = is_later.then(|| Own::of(grant, None));
        let command = renew(grant, change);
        let answered = call_own(&self.route, &grant.key, own.as_ref(), &command, until).await;
        answered.changed(&grant.key)
    }
}

impl Backend for Direct {
    fn acquire<'a>(
        &'a self,
        request: &'a Request,
        turn: Option<Turn>,
    ) -> Answer<'a, Option<Obtained>> {
        Box::pin(async move {
            let mut pending = Pending::new(self, request, turn);
            let outcome = self.obtain(request, &mut pending).await;
            // Where no answer came, nobody knows; nor where one came to a later call only, and was no.
            let unknown = match &outcome {
                Ok(_) => false,
                Err(Error::Unavailable(_) | Error::Lost(_)) => true,
                Err(_) => pending.is_unheard,
            };
            pending.settled = !unknown;
            outcome
        })
    }

    fn enter<'a>(
        &'a self,
        grant: &'a Grant,
        holds: u32,
        mode: Mode,
        until: Instant,
    ) -> Answer<'a, Instant> {
        Box::pin(async move {
            let entered = self.change(grant, &enter(grant, holds, mode), until).await;
            Ok(entered?.granted.known_until)
        })
    }

    fn acknowledge<'a>(
        &'a self,
        grant: &'a Grant,
        replicas: u32,
        until: Instant,
    ) -> Answer<'a, ()> {
        let known = timeout_at(until, self.acknowledge_once(grant, replicas));
        Box::pin(async move { Ok(known.await.unwrap_or_else(|_| Err(CallError::silence()))?) })
    }

    fn renew<'a>(
        &'a self,
        grant: &'a Grant,
        own: Option<Own<'a>>,
        change: Change,
        until: Instant,
    ) -> Answer<'a, Obtained> {
        Box::pin(async move {
            let command = renew(grant, change);
            let answered = call_own(&self.route, &grant.key, own.as_ref(), &command, until).await;
            answered.changed(&grant.key)
        })
    }

    fn adopt<'a>(
        &'a self,
        grant: &'a Grant,
        change: Change,
        until: Instant,
        sent_to: &'a mut SentTo,
    ) -> Answer<'a, Obtained> {
        Box::pin(async move {
            let (route, command) = (&self.route, renew(grant, change));
            let answered = call_to(route, &grant.key, &command, until, sent_to).await;
            answered.changed(&grant.key)
        })
    }

    /// When the keeper closes that keeps it, the keeping is over too. Nothing may come late: it would end the keeping
    /// for a later one who adopts it.
    fn keep_no_more(&self, grant: Grant, sent_to: SentTo, turn: Turn) {
        let (route, until) = (Arc::clone(&self.route), Instant::now() + self.times.reply);
        self.background.start(async move {
            let command = renew(&grant, Change::UNKEPT);
            let telling = behind(&route, &grant.key, &sent_to, &command);
            let told = turn.undo(timeout_at(until, telling)).await;
            leave_refused(&route, &grant.key, told).await;
        });
    }

    fn release<'a>(
        &'a self,
        grant: &'a Grant,
        own: Option<Own<'a>>,
        holds: u32,
        until: Instant,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let command = release(grant, holds);
            let answered = call_own(&self.route, &grant.key, own.as_ref(), &command, until).await;
            answered.released(holds)
        })
    }

    /// By a PING on the keeper, or by the token where nobody keeps it; by both where others know of it, as the keeper
    /// tells of no release.
    fn check<'a>(&'a self, held: &'a Arc<Held>, until: Instant) -> Answer<'a, ()> {
        Box::pin(async move {
            let grant = held.grant();
            if held.life().keep.is_some() && !held.is_winding_down() {
                if let Some(keeper) = held.keeper() {
                    let ping = Call::words(&["PING"]);
                    let stands = async {
                        if held.is_known_to_others() {
                            keeper.link.send(&fence(grant)).await?;
                        }
                        Ok(())
                    };
                    let both = join(keeper.link.send(&ping), stands);
                    match timeout_at(until, both).await {
                        Ok((_, Err(CallError::Refused(error)))) => return Err(error),
                        Ok((Ok(_), Ok(()))) if held.loss().is_none() => return Ok(()),
                        _ => {}
                    }
                }
                if held.is_known_to_others() {
                    // It is kept again, or lost to another connection, or not known before this time.
                    let bring_back = || rescue::bring_back_once(&self.route, held);
                    return until_answered(until, bring_back).await;
                }
                // It is about to be kept by another one.
                let change = Change {
                    keep: held.life().keep,
                    ..Change::default()
                };
                let sent = Instant::now();
                let obtained = self.change(grant, &renew(grant, change), until).await?;
                held.known_since(sent);
                self.look_after_kept(held, obtained.keeper);
                return Ok(());
            }
            let answered = call(&self.route, &grant.key, &fence(grant), until).await;
            answered.outcome.map(|_| ())
        })
    }

    fn look<'a>(&'a self, key: &'a [u8], call: Call, once: bool) -> Answer<'a, Value> {
        Box::pin(async move {
            let until = Instant::now() + self.times.reply;
            let look = || async {
                let mut is_sent = false;
                let node = self.route.node(key).await?;
                let answer = node.look(&call, &mut is_sent).await;
                answer.map_err(|error| {
                    let error = self.route.learn(key, &node, error);
                    if once && is_sent && error.may_have_been_done() {
                        CallError::Refused(error.into()) // it is not repeated
                    } else {
                        error
                    }
                })
            };
            until_answered(until, look).await
        })
    }

    fn close(&self) {
        self.route.close();
    }

    fn look_after(&self, held: &Arc<Held>, keeper: Option<Arc<Keeper>>) {
        match keeper {
            None if held.life().keep.is_some() => self.take_over_later(held),
            keeper => self.look_after_kept(held, keeper),
        }
        if held.life().keep.is_none() || held.life().at_most.is_some() {
            let (held, route) = (Arc::downgrade(held), Arc::downgrade(&self.route));
            let life = crate::winding::down(held, route, self.times.reply);
            self.background.start_service(life);
        }
    }
}

/// Later than anybody waits.
fn far_away() -> Instant {
    super::commands::after(Instant::now(), Duration::MAX)
}
