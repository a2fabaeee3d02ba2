//! Calls that do not wait, repeated until they are answered.

use super::{CallError, Path, Route};
use crate::Error;
use redis::{Cmd, Value};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// What came of a call.
pub(crate) struct Answered {
    /// The answer, or why there is none.
    pub(crate) outcome: Result<Value, Error>,
    /// When the call that was answered was sent, or a little before.
    pub(crate) sent: Instant,
    /// An earlier one may have been carried out, its answer lost.
    pub(crate) repeated: bool,
}

/// Sends a call about a key until it is answered or until this time, but at least twice. `path` is
/// where it was sent last.
pub(crate) async fn call(
    route: &Route,
    key: &[u8],
    command: &Cmd,
    until: Instant,
    path: &mut Option<Path>,
) -> Answered {
    let mut repeated = false;
    let mut pauses = Pauses::default();
    loop {
        let sent = Instant::now();
        let outcome = match once(route, key, command, path).await {
            Ok(value) => Ok(value),
            Err(CallError::Refused(error)) => Err(error),
            Err(error) if pauses.were_taken() && Instant::now() >= until => Err(error.into()),
            Err(error) => {
                tracing::debug!(?error, "a call is repeated");
                repeated |= error.may_have_been_done();
                pauses.take().await;
                continue;
            }
        };
        return Answered {
            outcome,
            sent,
            repeated,
        };
    }
}

async fn once(
    route: &Route,
    key: &[u8],
    command: &Cmd,
    path: &mut Option<Path>,
) -> Result<Value, CallError> {
    let used = path.insert(route.shared(key).await?);
    let answer = used.call(command).await;
    let error = match answer {
        Ok(value) => return Ok(value),
        Err(error) => route.learn(key, &used.node, error),
    };
    let CallError::Ask(address, _) = &error else {
        return Err(error);
    };
    let asking = route.asking(&used.node, address).await?;
    path.insert(asking).call(command).await
}

/// The pauses between attempts: none before the second one, then longer each time.
#[derive(Default)]
pub(crate) struct Pauses(u32);

impl Pauses {
    const FIRST: Duration = Duration::from_millis(10);
    const LONGEST: Duration = Duration::from_millis(250);

    pub(crate) fn were_taken(&self) -> bool {
        self.0 > 0
    }

    pub(crate) async fn take(&mut self) {
        if let Some(earlier) = self.0.checked_sub(1) {
            let pause = Self::FIRST * 2_u32.pow(earlier.min(10));
            sleep(pause.min(Self::LONGEST)).await;
        }
        self.0 += 1;
    }
}
