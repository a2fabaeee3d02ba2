//! A call about a held lock to all servers at once: renewal and release.

use super::latest::Calls;
use super::member::Member;
use super::{Quorum, trusted_until};
use crate::request::{Change, Grant, Granted};
use crate::server::Answered;
use crate::server::commands::{Call, fence, granted, renew};
use crate::{Error, Loss};
use redis::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

/// The pause before the servers are asked again.
const PAUSE: Duration = Duration::from_millis(50);

/// What the servers have answered so far.
#[derive(Default)]
struct Tally {
    done: usize,
    lost: Vec<Loss>,
    failed: BTreeMap<usize, Error>,
    /// The shortest that they remember.
    lease: Option<Duration>,
}

impl Tally {
    fn loss(&self) -> Loss {
        let telling = [Loss::NotOwner, Loss::Fenced];
        let found = telling.into_iter().find(|loss| self.lost.contains(loss));
        found.unwrap_or(Loss::NotHeld)
    }
}

impl Quorum {
    /// A server that does not have the grant any more does not get it back: somebody else may have had
    /// the lock there in between, and a majority pieced together like that would hide it.
    pub(super) async fn renew_on_all(
        &self,
        grant: &Grant,
        lease: Option<Duration>,
        until: Instant,
    ) -> Result<Granted, Error> {
        let limit = self.limit(lease.unwrap_or(self.times.reply * 10));
        let change = Change {
            lease,
            ..Change::default()
        };
        let (tally, start) = self
            .done_by_most(renew(grant, change), limit, until, Some(&grant.owner))
            .await?;
        let lease = tally.lease.unwrap_or_default();
        Ok(Granted {
            grant: grant.clone(),
            lease,
            known_until: trusted_until(start, lease).ok_or(Error::Lost(Loss::Expired))?,
        })
    }

    /// Whether a majority has it, with no longer lease.
    pub(super) async fn look_on_all(
        &self,
        grant: &Grant,
        lease: Duration,
        until: Instant,
    ) -> Result<(), Error> {
        let looked = self.done_by_most(fence(grant), self.limit(lease), until, None);
        looked.await.map(|_| ())
    }

    /// What a majority has answered, and when it was asked. A renewal of an owner comes behind what was sent before.
    async fn done_by_most(
        &self,
        command: Call,
        limit: Duration,
        until: Instant,
        renewed: Option<&str>,
    ) -> Result<(Tally, Instant), Error> {
        let command = Arc::new(command);
        loop {
            let calls = match renewed {
                Some(owner) => Some(self.latest.next(owner).await),
                None => None,
            };
            let start = Instant::now();
            let command = Arc::clone(&command);
            let tally = self.ask_all(calls, move |member| {
                let command = Arc::clone(&command);
                async move { member.call(&command, limit, &mut None).await }
            });
            let tally = tally.await;
            if tally.done >= self.majority() {
                return Ok((tally, start));
            }
            self.still_open(&tally)?;
            if Instant::now() >= until {
                return Err(self.too_few(&tally.failed));
            }
            sleep(PAUSE).await;
        }
    }

    /// On all servers, also those that have not granted it: they may have since.
    pub(super) async fn release_on_all(&self, grant: &Grant, until: Instant) -> Result<(), Error> {
        let limit = self.times.reply;
        let mut repeated = false;
        self.latest.stop(&grant.owner).await;
        loop {
            let grant = Arc::new(grant.clone());
            let tally = self.ask_all(None, move |member| {
                let grant = Arc::clone(&grant);
                async move {
                    let release = member.release(&grant.key, &grant.owner, limit, None);
                    let mut answered = release.await;
                    if answered.repeated && matches!(answered.outcome, Err(Error::Lost(_))) {
                        // The first of two calls has done it.
                        answered.outcome = Ok(Value::Okay);
                    }
                    answered
                }
            });
            let tally = tally.await;
            let answered = tally.done + tally.lost.len();
            // Repeated, or lost by a few servers only, it is free by now: that is what was asked for.
            if tally.done >= self.majority() || repeated && answered >= self.majority() {
                return Ok(());
            }
            self.still_open(&tally)?;
            if answered >= self.majority() {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(self.too_few(&tally.failed));
            }
            repeated = true;
            sleep(PAUSE).await;
        }
    }

    /// Asks every server, and waits until a majority has done it or cannot do it any more; the rest goes
    /// on in the background, also when nobody waits any more.
    async fn ask_all<F>(&self, calls: Option<Arc<Calls>>, ask: impl Fn(Arc<Member>) -> F) -> Tally
    where
        F: Future<Output = Answered> + Send + 'static,
    {
        let (answers, mut answered) = mpsc::unbounded_channel();
        for (place, member) in (0..).zip(&self.members) {
            let (asked, answers) = (ask(Arc::clone(member)), answers.clone());
            let asked = async move {
                // Nobody listens when it is decided.
                let _ = answers.send((place, asked.await));
            };
            match &calls {
                Some(calls) => self.background.start(calls.one(asked)),
                None => self.background.start(asked),
            }
        }
        drop(answers);
        let mut tally = Tally::default();
        while let Some((place, answer)) = answered.recv().await {
            match answer.outcome {
                Ok(value) => {
                    tally.done += 1;
                    let renewed = granted(&[], answer.sent, &value);
                    if let Ok(Some(renewed)) = renewed {
                        let lease = tally.lease.unwrap_or(renewed.lease);
                        tally.lease = Some(lease.min(renewed.lease));
                    }
                }
                Err(Error::Lost(loss)) => tally.lost.push(loss),
                Err(error) => {
                    tally.failed.insert(place, error);
                }
            }
            let most_without = self.members.len() - self.majority();
            if tally.done >= self.majority() || tally.lost.len() > most_without {
                break;
            }
        }
        tally
    }

    /// An error when asking again can change nothing.
    fn still_open(&self, tally: &Tally) -> Result<(), Error> {
        let most_without = self.members.len() - self.majority();
        if tally.lost.len() > most_without {
            return Err(Error::Lost(tally.loss()));
        }
        let refused = |error: &&Error| !matches!(error, Error::Unavailable(_));
        let mut refusals = tally.failed.iter().filter(|(_, error)| refused(error));
        if refusals.clone().count() > most_without
            && let Some((place, error)) = refusals.next()
        {
            let error = match error {
                Error::Refused { code, message } => Error::Refused {
                    code: code.clone(),
                    message: message.clone(),
                },
                error => Error::Misuse(error.to_string().into()),
            };
            return Err(self.named(*place, error));
        }
        Ok(())
    }
}
