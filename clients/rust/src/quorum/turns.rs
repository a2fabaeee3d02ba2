//! Waiting for a lock that is not free: attempt after attempt, and in between a place in the line of a
//! server that says so.

use super::Quorum;
use super::attempt::{Attempt, Failure};
use crate::Error;
use crate::request::{Granted, Request, Wait};
use crate::server::{CallError, Pending};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

/// How long a wait in one server's line lasts before all servers are tried again, besides up to as much
/// again by chance: that server may be the only one where the lock is not free.
const PATIENCE_IN_LINE: Duration = Duration::from_secs(1);

impl Quorum {
    pub(super) async fn obtain(&self, request: &Request) -> Result<Option<Granted>, Error> {
        let until = request.wait.end();
        let mut pauses = Pauses::default();
        let mut line = None;
        loop {
            let start = Instant::now();
            let attempt = self.attempt(request, line.take(), until).await;
            let failure = match attempt {
                Ok(granted) => return Ok(Some(granted)),
                Err(failure) => failure,
            };
            tracing::debug!(?failure, "an attempt has failed");
            let unanswered = match failure {
                Failure::Refused(error) => return Err(error),
                Failure::TooFew(error) => Some(error),
                Failure::Busy(_) | Failure::Late if matches!(request.wait, Wait::Now(_)) => {
                    return Ok(None);
                }
                Failure::Busy(first) => {
                    line = Some(first);
                    None
                }
                Failure::Late => None,
            };
            if until.is_some_and(|until| Instant::now() >= until) {
                return unanswered.map_or(Ok(None), Err);
            }
            pauses.take(start.elapsed(), until).await;
        }
    }

    /// An attempt under a new owner, when its turn has come in the line of the server at this place.
    async fn attempt(
        &self,
        request: &Request,
        line: Option<usize>,
        until: Option<Instant>,
    ) -> Result<Granted, Failure> {
        let attempt = match line {
            Some(place) => self.begin_in_turn(place, request, until).await?,
            None => Attempt::begin(self, self.under_a_new_owner(request))?,
        };
        attempt.finish().await
    }

    async fn begin_in_turn(
        &self,
        place: usize,
        request: &Request,
        until: Option<Instant>,
    ) -> Result<Attempt<'_>, Failure> {
        let member = &self.members[place];
        let direct = member.direct();
        let longest = PATIENCE_IN_LINE + part_of(PATIENCE_IN_LINE);
        let left = until.map_or(longest, |until| {
            until.saturating_duration_since(Instant::now())
        });
        let left = left.clamp(Duration::from_millis(1), longest);
        let waiting = self.under_a_new_owner(request);
        // Dropped before the attempt has begun, it leaves the line, and frees what it has got.
        let mut pending = Pending::new(&direct, &waiting, None);
        let wait = Wait::Until(Instant::now() + left);
        let turn = direct.wait_once(&waiting, wait, &mut pending);
        let answer = timeout(left + self.times.reply / 2, turn).await;
        match answer.unwrap_or_else(|_| Err(CallError::silence())) {
            // The attempt finds it, or asks once more.
            Ok(_) => {
                let attempt = Attempt::begin(self, waiting)?;
                pending.settled = true;
                Ok(attempt)
            }
            Err(error) => {
                drop(pending);
                member.learn(&error, None);
                Attempt::begin(self, self.under_a_new_owner(request))
            }
        }
    }

    fn under_a_new_owner(&self, request: &Request) -> Request {
        Request {
            owner: self.names.fresh(),
            ..request.clone()
        }
    }
}

/// The pauses between attempts: up to as long as the attempt took, by chance, so that one of several
/// that have split the servers among them comes first; with each failure up to twice as long.
#[derive(Default)]
struct Pauses {
    longest: Duration,
}

impl Pauses {
    const SHORTEST: Duration = Duration::from_millis(1);
    const LONGEST: Duration = Duration::from_millis(250);

    async fn take(&mut self, attempt: Duration, until: Option<Instant>) {
        let begin = attempt.clamp(Self::SHORTEST, Self::SHORTEST * 20);
        self.longest = begin.max(self.longest * 2).min(Self::LONGEST);
        let pause = part_of(self.longest);
        let left = until.map_or(pause, |until| {
            until.saturating_duration_since(Instant::now())
        });
        sleep(pause.min(left)).await;
    }
}

/// Some part of it, by chance.
fn part_of(whole: Duration) -> Duration {
    let chance = u32::from(Uuid::new_v4().as_bytes()[0]);
    whole * chance / u32::from(u8::MAX)
}
