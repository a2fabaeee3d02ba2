//! Calls that do not wait, repeated until they are answered.

use super::commands::{Call, granted};
use super::keeper::Keeper;
use super::line::{Line, Own};
use super::{CallError, Route};
use crate::backend::Obtained;
use crate::held::Held;
use crate::{Error, Loss};
use redis::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};
use uuid::Uuid;

/// What came of a call.
pub(crate) struct Answered {
    /// The answer, or why there is none.
    pub(crate) outcome: Result<Value, Error>,
    /// When the call that was answered was sent, or a little before.
    pub(crate) sent: Instant,
    /// An earlier one may have been carried out, its answer lost.
    pub(crate) repeated: bool,
    /// Where it was answered.
    pub(crate) keeper: Option<Arc<Keeper>>,
}

impl Answered {
    /// With a grant, or none.
    pub(super) fn granted(self, key: &[u8]) -> Result<Option<Obtained>, Error> {
        let granted = granted(key, self.sent, &self.outcome?)?;
        let keeper = self.keeper;
        Ok(granted.map(|granted| Obtained { granted, keeper }))
    }

    /// With the grant as it stands then.
    pub(super) fn changed(self, key: &[u8]) -> Result<Obtained, Error> {
        let obtained = self.granted(key)?;
        obtained.ok_or_else(|| Error::unexpected(&Value::Nil))
    }

    /// To a release down to so many holds.
    pub(super) fn released(self, holds: u32) -> Result<(), Error> {
        match self.outcome {
            // The first call has been carried out.
            Err(Error::Lost(loss))
                if self.repeated && holds == 0 && loss != Loss::KeptElsewhere =>
            {
                Ok(())
            }
            outcome => outcome.map(|_| ()),
        }
    }
}

/// The keeper that a call has been sent to, the last time.
pub(crate) type SentTo = Option<Arc<Keeper>>;

/// Sends a call about a key until it is answered or until this time.
pub(crate) async fn call(route: &Route, key: &[u8], call: &Call, until: Instant) -> Answered {
    repeat(route, key, call, None, until, &mut None).await
}

/// The same, and tells where it has been sent, for whoever gives it up.
pub(crate) async fn call_to(
    route: &Route,
    key: &[u8],
    call: &Call,
    until: Instant,
    sent_to: &mut SentTo,
) -> Answered {
    repeat(route, key, call, None, until, sent_to).await
}

/// The same about a grant that somebody else may keep by now: nothing is sent then.
pub(crate) async fn call_own(
    route: &Route,
    key: &[u8],
    own: Option<&Own<'_>>,
    call: &Call,
    until: Instant,
) -> Answered {
    repeat(route, key, call, own, until, &mut None).await
}

async fn repeat(
    route: &Route,
    key: &[u8],
    call: &Call,
    own: Option<&Own<'_>>,
    until: Instant,
    sent_to: &mut SentTo,
) -> Answered {
    let mut repeated = false;
    let mut last = None;
    let mut pauses = Pauses::default();
    loop {
        let sent = Instant::now();
        *sent_to = None;
        let attempt = timeout_at(until, try_once(route, key, call, own, sent_to)).await;
        let attempt =
            attempt.unwrap_or_else(|_| Err(last.take().unwrap_or_else(CallError::silence)));
        let (outcome, keeper) = match attempt {
            Ok((value, keeper)) => (Ok(value), Some(keeper)),
            Err(CallError::Refused(error)) => (Err(error), None),
            Err(error) if Instant::now() >= until => (Err(error.into()), None),
            Err(error) => {
                tracing::debug!(?error, "a call is repeated");
                repeated |= sent_to.is_some() && error.may_have_been_done();
                last = Some(error);
                pauses.take(until).await;
                continue;
            }
        };
        return Answered {
            outcome,
            sent,
            repeated,
            keeper,
        };
    }
}

/// Tries it until it is answered or until this time.
pub(super) async fn until_answered<T, F>(
    until: Instant,
    attempt: impl Fn() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, CallError>>,
{
    let mut pauses = Pauses::default();
    loop {
        match timeout_at(until, attempt()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(CallError::Refused(error))) => return Err(error),
            Ok(Err(error)) if Instant::now() >= until => return Err(error.into()),
            Ok(Err(_)) => pauses.take(until).await,
            Err(_) => return Err(CallError::silence().into()),
        }
    }
}

/// The same as [`call_own`], once.
pub(super) async fn once_own(
    route: &Route,
    held: &Held,
    call: &Call,
) -> Result<(Value, Arc<Keeper>), CallError> {
    let (key, own) = (&held.grant().key, held.own());
    try_once(route, key, call, own.as_ref(), &mut None).await
}

async fn try_once(
    route: &Route,
    key: &[u8],
    call: &Call,
    own: Option<&Own<'_>>,
    sent_to: &mut SentTo,
) -> Result<(Value, Arc<Keeper>), CallError> {
    let line = Line::to(route, key).await?;
    match line.send_own(call, own, sent_to).await {
        Err(CallError::Ask(address, _)) => {
            let line = line.asked(&address).await?;
            let value = line.send_own(call, own, sent_to).await?;
            Ok((value, line.keeper))
        }
        answer => Ok((answer?, line.keeper)),
    }
}

/// Sends it once, behind what has been sent to this keeper; not at all when that has closed.
pub(crate) async fn behind(
    route: &Route,
    key: &[u8],
    sent_to: &SentTo,
    call: &Call,
) -> Option<Result<Value, CallError>> {
    let keeper = sent_to.as_ref().filter(|keeper| !keeper.link.is_closed())?;
    let node = route.node(key).await.ok()?;
    Some(node.call_on(&keeper.link, call).await)
}

/// The pauses between attempts: none before the second one, then longer each time, and not the same for
/// all who were disturbed at one time. Before a limit they take half of what is left: the last attempt needs time for its
/// answer.
#[derive(Default)]
pub(crate) struct Pauses(u32);

impl Pauses {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(1);

    const SHORTEST: Duration = Duration::from_millis(20);

    pub(crate) async fn take(&mut self, until: Instant) {
        let number = self.0;
        self.0 += 1;
        if let Some(earlier) = number.checked_sub(1) {
            let pause = (Self::FIRST * 2_u32.pow(earlier.min(10))).min(Self::LONGEST);
            let chance = u32::from(Uuid::new_v4().as_bytes()[0]);
            let pause = pause / 2 + pause * chance / (2 * u32::from(u8::MAX));
            let left = until.saturating_duration_since(Instant::now());
            sleep(pause.min((left / 2).max(Self::SHORTEST)).min(left)).await;
        }
    }
}
