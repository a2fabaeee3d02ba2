//! Locks kept by one server at a time: a single one, a primary, a node of a cluster.

use super::calls::{Pauses, call};
use super::cancel::Pending;
use super::commands::{Call, acquire, enter, fence, granted, release, renew};
use super::keeper::Kept;
use super::waiting::{BlockUntil, Lines};
use super::{Answered, CallError, Common, Keeper, Route, rescue, takeover};
use crate::Error;
use crate::backend::{Answer, Backend, Obtained};
use crate::background::Background;
use crate::held::Held;
use crate::observer::Reports;
use crate::registry::Turn;
use crate::request::{Change, Grant, Granted, Mode, Request, Wait};
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
        let obtained = read(&grant.key, answered)?;
        obtained.ok_or_else(|| Error::unexpected(&Value::Nil))
    }

    /// First without waiting, on the keeper: most locks are free. Then in line.
    async fn obtain(
        &self,
        request: &Request,
        pending: &mut Pending,
    ) -> Result<Option<Obtained>, Error> {
        let until = request.wait.until(self.times.reply);
        let waits = request.wait != Wait::No;
        if request.replicas == 0 && !(waits && self.lines.has(&request.key)) {
            pending.is_sent = true;
            let least = Instant::now() + self.times.reply;
            let tried_until = until.map_or_else(far_away, |until| until.max(least));
            let answered = call(&self.route, &request.key, &acquire(request), tried_until).await;
            let obtained = read(&request.key, answered)?;
            if obtained.is_some() || !waits {
                return Ok(obtained);
            }
        }
        let _in_line = waits.then(|| self.lines.join(&request.key));
        self.wait_in_line(request, until, pending).await
    }

    async fn wait_in_line(
        &self,
        request: &Request,
        until: Option<Instant>,
        pending: &mut Pending,
    ) -> Result<Option<Obtained>, Error> {
        let mut pauses = Pauses::default();
        let mut error: Option<CallError> = None;
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return error.map_or(Ok(None), |error| Err(error.into()));
            }
            let block_until = match request.wait {
                Wait::No => BlockUntil::Now,
                Wait::AtMost(_) | Wait::Forever => until.map_or(BlockUntil::Ever, BlockUntil::Then),
            };
            match self.wait_once(request, block_until, pending).await {
                Ok(None) => return Ok(None),
                Ok(Some(granted)) if takeover::is_known(request, &granted) => {
                    let keeper = None;
                    return Ok(Some(Obtained { granted, keeper }));
                }
                // When the grant was made is not known: the lease that counts begins now.
                Ok(Some(granted)) => match self.begin(request, &granted.grant).await {
                    Ok(obtained) => return Ok(Some(obtained)),
                    // It ended before we knew of it: back into the line.
                    Err(Error::Lost(loss)) => tracing::debug!(%loss, "a grant came too late"),
                    Err(error) => return Err(error),
                },
                Err(CallError::Refused(error)) => return Err(error),
                Err(other) => {
                    tracing::debug!(error = ?other, "a wait begins again");
                    error = Some(other);
                    let _ = timeout_at(until.unwrap_or_else(far_away), pauses.take()).await;
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
        self.change(grant, &renew(grant, change), until).await
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
            // Where no answer came, nobody knows.
            let unknown = matches!(outcome, Err(Error::Unavailable(_) | Error::Lost(_)));
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
    ) -> Answer<'a, Granted> {
        Box::pin(async move {
            let entered = self.change(grant, &enter(grant, holds, mode), until).await;
            Ok(entered?.granted)
        })
    }

    fn renew<'a>(
        &'a self,
        grant: &'a Grant,
        change: Change,
        until: Instant,
    ) -> Answer<'a, Obtained> {
        Box::pin(async move { self.change(grant, &renew(grant, change), until).await })
    }

    fn keep_no_more(&self, grant: Grant) {
        let (route, until) = (Arc::clone(&self.route), Instant::now() + self.times.release);
        let change = Change {
            keep: Some(Duration::ZERO),
            ..Change::default()
        };
        self.background.start(async move {
            let _ = call(&route, &grant.key, &renew(&grant, change), until).await;
        });
    }

    fn release<'a>(&'a self, grant: &'a Grant, holds: u32, until: Instant) -> Answer<'a, ()> {
        Box::pin(async move {
            let command = release(grant, holds);
            let answered = call(&self.route, &grant.key, &command, until).await;
            match answered.outcome {
                Ok(_) => Ok(()),
                // The first call has been carried out.
                Err(Error::Lost(_)) if answered.repeated && holds == 0 => Ok(()),
                Err(error) => Err(error),
            }
        })
    }

    /// By a PING on the keeper, or by the token where nobody keeps it.
    fn check<'a>(&'a self, held: &'a Arc<Held>, until: Instant) -> Answer<'a, ()> {
        Box::pin(async move {
            let grant = held.grant();
            if held.life().keep.is_some() && !held.is_winding_down() {
                if let Some(keeper) = held.keeper() {
                    let ping = Call::words(&["PING"]);
                    let answer = timeout_at(until, keeper.link.send(&ping)).await;
                    if matches!(answer, Ok(Ok(_))) && held.loss().is_none() {
                        return Ok(());
                    }
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

    fn look<'a>(&'a self, key: &'a [u8], call: Call) -> Answer<'a, Value> {
        Box::pin(async move {
            let until = Instant::now() + self.times.reply;
            let mut pauses = Pauses::default();
            loop {
                let looked = async {
                    let node = self.route.node(key).await?;
                    let answer = node.look(&call).await;
                    answer.map_err(|error| self.route.learn(key, &node, error))
                };
                match timeout_at(until, looked).await {
                    Ok(Ok(value)) => return Ok(value),
                    Ok(Err(CallError::Refused(error))) => return Err(error),
                    Ok(Err(error)) if Instant::now() >= until => return Err(error.into()),
                    Ok(Err(_)) => {
                        let _ = timeout_at(until, pauses.take()).await;
                    }
                    Err(_) => return Err(CallError::silence().into()),
                }
            }
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
            let life = crate::winding::down(Arc::downgrade(held), self.times.reply);
            self.background.start_service(life);
        }
    }
}

fn read(key: &[u8], answered: Answered) -> Result<Option<Obtained>, Error> {
    let granted = granted(key, answered.sent, &answered.outcome?)?;
    let keeper = answered.keeper;
    Ok(granted.map(|granted| Obtained { granted, keeper }))
}

/// Later than anybody waits.
fn far_away() -> Instant {
    super::commands::after(Instant::now(), Duration::MAX)
}
