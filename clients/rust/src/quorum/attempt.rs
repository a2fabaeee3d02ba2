//! One attempt to take a lock: ask all servers, lift the grants of a majority to one token.

use super::part::{Order, Part, Report};
use super::{Quorum, trusted_until};
use crate::Error;
use crate::request::{Grant, Granted, Request};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout_at};

/// Why an attempt did not get the lock. All that it got is being released.
#[derive(Debug)]
pub(super) enum Failure {
    /// Others have it; the place of the first server that has not granted it here.
    Busy(usize),
    /// It came too late: a grant was gone, or the lease over, when the others were there.
    Late,
    /// Too few servers answer.
    TooFew(Error),
    /// It would be the same again.
    Refused(Error),
}

/// An attempt that has begun. Dropped before it is done, it gives back whatever it has got or gets yet.
pub(super) struct Attempt<'a> {
    quorum: &'a Quorum,
    request: Arc<Request>,
    start: Instant,
    orders: watch::Sender<Order>,
    reports: mpsc::UnboundedReceiver<(usize, Report)>,
    /// How many servers have still to answer the first question.
    unheard: usize,
    grants: BTreeMap<usize, u64>,
    /// The tokens to which grants have been lifted.
    raised: BTreeMap<usize, u64>,
    /// The last tokens that were too far ahead.
    refused: BTreeMap<usize, u64>,
    /// Whose grants cannot be lifted any more.
    gone: BTreeSet<usize>,
    busy: BTreeSet<usize>,
    failed: BTreeMap<usize, Error>,
}

impl<'a> Attempt<'a> {
    /// Asks all servers at once that are not known to be down. The owner has not been used before, but
    /// to wait in a line.
    pub(super) fn begin(quorum: &'a Quorum, request: Request) -> Result<Self, Failure> {
        let up: Vec<_> = (0..)
            .zip(&quorum.members)
            .filter(|(_, member)| member.down().is_none())
            .collect();
        if up.len() < quorum.majority() {
            return Err(Failure::TooFew(quorum.too_few(&BTreeMap::new())));
        }
        let request = Arc::new(request);
        let calls = quorum.latest.first(&request.owner);
        let (orders, orders_to_parts) = watch::channel(Order::Take);
        let (reports_of_parts, reports) = mpsc::unbounded_channel();
        let attempt = Self {
            quorum,
            start: Instant::now(),
            orders,
            reports,
            unheard: up.len(),
            grants: BTreeMap::new(),
            raised: BTreeMap::new(),
            refused: BTreeMap::new(),
            gone: BTreeSet::new(),
            busy: BTreeSet::new(),
            failed: BTreeMap::new(),
            request: Arc::clone(&request),
        };
        for (place, member) in up {
            let part = Part {
                place,
                member: Arc::clone(member),
                limit: quorum.limit(request.life.lease),
                request: Arc::clone(&request),
                under_way: Some(calls.under_way.token()),
                calls: Arc::clone(&calls),
                granted: None,
                orders: orders_to_parts.clone(),
                reports: reports_of_parts.clone(),
            };
            quorum.background.start(part.play());
        }
        Ok(attempt)
    }

    /// Both rounds.
    pub(super) async fn finish(mut self) -> Result<Granted, Failure> {
        self.gather().await?;
        let mut chosen = self.grants.clone();
        loop {
            let Some(token) = chosen.values().copied().max() else {
                return Err(Failure::Late);
            };
            let start = Instant::now();
            match self.lift(&chosen, token).await {
                Lifted::Yes => return self.keep(token, start),
                Lifted::Ahead(behind) => chosen = self.without_the_furthest(behind, token)?,
                Lifted::No => {
                    self.hear_enough().await;
                    return Err(self.failure());
                }
            }
        }
    }

    /// Waits for the first answers of a majority, and then as long again for those of the others: each
    /// server that is with it from the start is one more that can fail later.
    async fn gather(&mut self) -> Result<(), Failure> {
        const LEAST_GRACE: Duration = Duration::from_millis(50);
        let majority = self.quorum.majority();
        let mut enough = None;
        while self.unheard > 0 {
            if self.grants.len() + self.unheard < majority && self.is_clear() {
                return Err(self.failure());
            }
            if enough.is_none() && self.grants.len() >= majority {
                let now = Instant::now();
                enough = Some(now + (now - self.start).max(LEAST_GRACE));
            }
            let report = match enough {
                None => self.reports.recv().await,
                Some(enough) => match timeout_at(enough, self.reports.recv()).await {
                    Ok(report) => report,
                    Err(_) => return Ok(()),
                },
            };
            let Some((place, report)) = report else {
                break;
            };
            self.note(place, report);
        }
        if self.grants.len() < majority {
            return Err(self.failure());
        }
        Ok(())
    }

    /// How many have answered, and can be used.
    fn answered(&self) -> usize {
        let places = self.grants.keys().chain(&self.busy);
        places
            .filter(|place| !self.failed.contains_key(place))
            .count()
    }

    /// Whether it is known by now if a majority answers.
    fn is_clear(&self) -> bool {
        let (answered, majority) = (self.answered(), self.quorum.majority());
        answered >= majority || answered + self.unheard < majority
    }

    /// What has not been heard of may be down: a lock is busy only where a majority has answered.
    async fn hear_enough(&mut self) {
        while !self.is_clear()
            && let Some((place, report)) = self.reports.recv().await
        {
            self.note(place, report);
        }
    }

    /// Lifts these grants, and those that came too late to be among them and can be lifted, to a
    /// token. When it is too far ahead for less than a majority, all servers have been heard.
    async fn lift(&mut self, chosen: &BTreeMap<usize, u64>, token: u64) -> Lifted {
        let majority = self.quorum.majority();
        self.orders.send_replace(Order::Raise(token));
        let (lifted, behind) = loop {
            let lifted = self.raised.values().filter(|to| **to == token).count();
            let behind: BTreeMap<_, _> = (self.grants.iter())
                .map(|(place, granted)| (*place, *granted))
                .filter(|(place, _)| self.is_behind(*place, token))
                .collect();
            let is_enough = behind.is_empty() || behind.len() >= majority;
            let is_all_said = self.unheard == 0 && self.are_decided(&self.grants, token);
            if lifted >= majority || self.are_decided(chosen, token) && (is_enough || is_all_said) {
                break (lifted, behind);
            }
            let Some((place, report)) = self.reports.recv().await else {
                break (lifted, behind);
            };
            self.note(place, report);
        };
        if !behind.is_empty() {
            let behind = self.names(behind.keys());
            tracing::warn!(token, behind, "the clocks of the servers differ too much");
        }
        if lifted >= majority {
            Lifted::Yes
        } else if behind.is_empty() {
            Lifted::No
        } else {
            Lifted::Ahead(behind)
        }
    }

    /// Whether the server has a grant, and this token is too far ahead of its time.
    fn is_behind(&self, place: usize, token: u64) -> bool {
        self.refused.get(&place) == Some(&token)
            && !self.raised.contains_key(&place)
            && !self.gone.contains(&place)
    }

    /// Whether it is known of each of these grants what became of lifting it to the token. One that is
    /// higher cannot be lifted to it, and what has been lifted is lifted no more.
    fn are_decided(&self, grants: &BTreeMap<usize, u64>, token: u64) -> bool {
        grants.iter().all(|(place, granted)| {
            *granted > token
                || self.gone.contains(place)
                || self.raised.contains_key(place)
                || self.refused.get(place) == Some(&token)
        })
    }

    /// Those servers for which the token was too far ahead, when they are a majority without the one
    /// whose clock gave it and those that have been lifted to it.
    fn without_the_furthest(
        &self,
        behind: BTreeMap<usize, u64>,
        token: u64,
    ) -> Result<BTreeMap<usize, u64>, Failure> {
        if behind.len() >= self.quorum.majority() {
            return Ok(behind);
        }
        let furthest: Vec<_> = self.grants.iter().filter(|it| *it.1 == token).collect();
        Err(Failure::Refused(Error::Refused {
            code: "AHEAD".to_owned(),
            message: format!(
                "the clock of {} is too far behind that of {}, and there is no majority without them",
                self.names(behind.keys()),
                self.names(furthest.into_iter().map(|(place, _)| place)),
            ),
        }))
    }

    fn keep(self, token: u64, start: Instant) -> Result<Granted, Failure> {
        let Request {
            key, owner, life, ..
        } = &*self.request;
        let Some(known_until) = trusted_until(start, life.lease) else {
            return Err(Failure::Late);
        };
        self.orders.send_replace(Order::Keep(token));
        let grant = Grant {
            key: key.clone(),
            owner: owner.clone(),
            token,
        };
        Ok(Granted {
            grant,
            lease: life.lease,
            known_until,
        })
    }

    fn note(&mut self, place: usize, report: Report) {
        let is_first = !self.grants.contains_key(&place);
        self.unheard -= usize::from(is_first);
        match report {
            Report::Granted(token) => {
                self.grants.insert(place, token);
            }
            Report::Busy => {
                self.busy.insert(place);
            }
            Report::Raised(to) => {
                self.raised.insert(place, to);
            }
            Report::Ahead(to) => {
                self.refused.insert(place, to);
            }
            Report::Failed(error) => {
                self.gone.insert(place);
                self.failed.insert(place, error);
            }
            Report::Gone(loss) => {
                self.gone.insert(place);
                let server = self.quorum.members[place].address();
                tracing::debug!(server, %loss, "a grant is gone before it could be lifted");
            }
        }
    }

    fn failure(&mut self) -> Failure {
        let majority = self.quorum.majority();
        let all = self.quorum.members.len();
        let refused = |error: &Error| !matches!(error, Error::Unavailable(_));
        if self.failed.values().filter(|error| refused(error)).count() > all - majority {
            let mut failed = std::mem::take(&mut self.failed).into_iter();
            if let Some((place, error)) = failed.find(|(_, error)| refused(error)) {
                return Failure::Refused(self.quorum.named(place, error));
            }
        }
        let usable = (0..)
            .zip(&self.quorum.members)
            .filter(|(place, member)| member.down().is_none() && !self.failed.contains_key(place));
        let usable: Vec<usize> = usable.map(|(place, _)| place).collect();
        if usable.len() < majority || self.answered() < majority {
            return Failure::TooFew(self.quorum.too_few(&self.failed));
        }
        // Which servers said no is chance; that all go to the same line is what makes it one.
        let mut not_granted = usable.into_iter();
        match not_granted.find(|place| !self.grants.contains_key(place)) {
            Some(first) if !self.busy.is_empty() => Failure::Busy(first),
            _ => Failure::Late,
        }
    }

    fn names<'b>(&self, places: impl IntoIterator<Item = &'b usize>) -> String {
        let names = places.into_iter();
        let names = names.map(|place| self.quorum.members[*place].address());
        names.collect::<Vec<_>>().join(" and ")
    }
}

/// What became of the second round.
enum Lifted {
    /// A majority stands at the token.
    Yes,
    /// It does not; for these servers, with these tokens, it was too far ahead.
    Ahead(BTreeMap<usize, u64>),
    /// It does not.
    No,
}

impl Quorum {
    /// Tells which servers did not answer, and why.
    pub(super) fn too_few(&self, failed: &BTreeMap<usize, Error>) -> Error {
        let (all, majority) = (self.members.len(), self.majority());
        let why: Vec<_> = (0..)
            .zip(&self.members)
            .filter_map(|(place, member)| {
                let why = match failed.get(&place) {
                    Some(Error::Unavailable(error)) => error.to_string(),
                    Some(error) => error.to_string(),
                    None => member.down()?,
                };
                Some(format!("{}: {why}", member.address()))
            })
            .collect();
        let answering = all.saturating_sub(why.len());
        let text = format!(
            "{answering} of {all} servers can be used, and it takes {majority}; {}",
            why.join("; ")
        );
        Error::Unavailable(io::Error::new(io::ErrorKind::NotConnected, text).into())
    }

    /// The error, with the server that gave it.
    pub(super) fn named(&self, place: usize, error: Error) -> Error {
        let server = self.members[place].address();
        match error {
            Error::Refused { code, message } => Error::Refused {
                code,
                message: format!("{message} ({server})"),
            },
            Error::Misuse(text) => Error::Misuse(format!("{text} ({server})").into()),
            error => error,
        }
    }
}
