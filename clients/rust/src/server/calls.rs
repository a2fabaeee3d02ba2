//! Calls that do not wait, repeated until they are answered.

use super::commands::Call;
use super::keeper::Keeper;
use super::{CallError, Node, Route};
use crate::Error;
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

/// Sends a call about a key until it is answered or until this time.
pub(crate) async fn call(route: &Route, key: &[u8], call: &Call, until: Instant) -> Answered {
    let mut repeated = false;
    let mut last = None;
    let mut pauses = Pauses::default();
    loop {
        let sent = Instant::now();
        let mut is_sent = false;
        let attempt = timeout_at(until, try_once(route, key, call, &mut is_sent)).await;
        let attempt =
            attempt.unwrap_or_else(|_| Err(last.take().unwrap_or_else(CallError::silence)));
        let (outcome, keeper) = match attempt {
            Ok((value, keeper)) => (Ok(value), Some(keeper)),
            Err(CallError::Refused(error)) => (Err(error), None),
            Err(error) if Instant::now() >= until => (Err(error.into()), None),
            Err(error) => {
                tracing::debug!(?error, "a call is repeated");
                repeated |= is_sent && error.may_have_been_done();
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

/// Sends it once, to the keeper of the server that has the key, as far as is known.
pub(crate) async fn once(
    route: &Route,
    key: &[u8],
    call: &Call,
) -> Result<(Value, Arc<Keeper>), CallError> {
    try_once(route, key, call, &mut false).await
}

/// The same, and tells whether it has come to a connection.
pub(super) async fn try_once(
    route: &Route,
    key: &[u8],
    call: &Call,
    is_sent: &mut bool,
) -> Result<(Value, Arc<Keeper>), CallError> {
    let node = route.node(key).await?;
    let sent = async {
        let keeper = node.keeper().await?;
        *is_sent = true;
        let value = node.call_on(&keeper.link, call).await?;
        Ok((value, keeper))
    };
    let error = match sent.await {
        Ok(answer) => return Ok(answer),
        Err(error) => route.learn(key, &node, error),
    };
    let CallError::Ask(address, _) = &error else {
        return Err(error);
    };
    let other = route.asked_to(&node, address)?;
    let keeper = other.keeper().await?;
    let value = other.ask_on(&keeper.link, call).await?;
    Ok((value, keeper))
}

/// Sends it once on the keeper that is open, behind what has been sent there; not at all where none is.
pub(crate) async fn behind(node: &Node, call: &Call) -> Option<Result<Value, CallError>> {
    let keeper = node.open_keeper().await?;
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
