//! What an acquire has got of each server.

use super::guard::Together;
use super::vote::{Reply, Vote, What};
use super::{Member, Shared};
use crate::acquire::{For, Terms, acquire};
use crate::background::{background, sleep};
use crate::error::{Error, ErrorKind, Failure};
use crate::guard::Guard;
use futures_util::StreamExt;
use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::FuturesUnordered;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long replies are waited for at least when a majority has answered.
pub(super) const PATIENCE: Duration = Duration::from_millis(50);

/// What an acquire has got of each server. Each of its calls has an owner of its own, so that a late one never counts for
/// another.
pub(super) struct Ballot {
    quorum: Arc<Shared>,
    key: Arc<[u8]>,
    pub(super) terms: Terms,
    given_up: CancellationToken,
    votes: Vec<Vote>,
    calls: FuturesUnordered<BoxFuture<'static, Reply>>,
}

impl Ballot {
    pub(super) fn new(
        quorum: Arc<Shared>,
        key: Arc<[u8]>,
        terms: Terms,
        given_up: CancellationToken,
    ) -> Self {
        let votes = quorum.members.iter().map(|_| Vote::default()).collect();
        Self {
            quorum,
            key,
            terms,
            given_up,
            votes,
            calls: FuturesUnordered::new(),
        }
    }

    fn failed(&self, kind: ErrorKind, cause: impl Into<String>) -> Error {
        Failure::new(kind, cause.into()).of("acquire", &self.key)
    }

    pub(super) fn require_terms(&self) -> Result<(), Error> {
        self.terms
            .wrong
            .map_or(Ok(()), |wrong| Err(self.failed(ErrorKind::Misuse, wrong)))
    }

    fn member(&self, place: usize) -> &Member {
        &self.quorum.members[place]
    }

    fn count(&self, is: impl Fn(&Vote) -> bool) -> usize {
        self.votes.iter().filter(|vote| is(vote)).count()
    }

    fn is_open(&self) -> bool {
        self.votes.iter().any(|vote| vote.is_open)
    }

    pub(super) fn has_grant(&self, place: usize) -> bool {
        self.votes[place].guard.is_some()
    }

    pub(super) fn has_majority(&self) -> bool {
        self.count(|vote| vote.guard.is_some()) >= self.quorum.majority
    }

    /// The first server that has answered.
    pub(super) fn first(&self) -> Option<usize> {
        self.votes.iter().enumerate().position(|(place, vote)| {
            let is_in_line = vote.is_in_line && !self.member(place).is_down();
            vote.guard.is_some()
                || vote.is_busy() && !vote.is_open && !vote.is_in_line
                || is_in_line
        })
    }

    /// Acquires the lock of all servers that have neither granted it nor are being asked.
    pub(super) async fn ask_rest(&mut self, wait: Duration) {
        // Nobody renews what it has with a fixed lease.
        let wait = self.terms.fixed.map_or(wait, |lease| wait.min(lease / 2));
        for place in 0..self.votes.len() {
            let vote = &self.votes[place];
            if vote.guard.is_none() && !vote.is_open && !vote.is_in_line {
                self.ask(place, wait, false);
            }
        }
        self.collect(|vote| vote.guard.is_some(), Some(PATIENCE))
            .await;
    }

    /// Waits in the line of this server, and in no other.
    pub(super) fn wait_in_line(&mut self, place: usize, wait: Duration) {
        if !self.votes[place].is_in_line {
            self.leave_lines();
            self.ask(place, wait, true);
        }
    }

    /// Acquires the lock of one server.
    fn ask(&mut self, place: usize, wait: Duration, is_in_line: bool) {
        let mut terms = Terms {
            wait: Some(wait),
            ..self.terms.clone()
        };
        if is_in_line {
            terms.at_most = None; // the other servers see to it
        }
        let (locks, key) = (self.member(place).locks.clone(), Arc::clone(&self.key));
        let leave = self.given_up.child_token();
        let vote = &mut self.votes[place];
        (vote.asks, vote.is_open, vote.is_in_line) = (vote.asks + 1, !is_in_line, is_in_line);
        vote.leave = leave.clone();
        let asks = vote.asks;
        self.calls.push(Box::pin(async move {
            let result = acquire(&locks, key, For::Anybody, terms, &leave).await;
            Reply {
                place,
                what: What::Asked { asks, result },
            }
        }));
    }

    /// Gives up the places in line.
    pub(super) fn leave_lines(&mut self) {
        for vote in self.votes.iter_mut().filter(|vote| vote.is_in_line) {
            vote.is_in_line = false;
            vote.asks += 1;
            vote.leave.cancel();
        }
    }

    /// Applies a reply, if one comes in time.
    pub(super) async fn next(&mut self, over: Option<Instant>) -> bool {
        let over = async {
            match over {
                Some(over) => sleep(over.saturating_duration_since(Instant::now())).await,
                None => std::future::pending().await,
            }
        };
        let calls = &mut self.calls;
        let reply = async {
            match calls.next().await {
                Some(reply) => reply,
                None => std::future::pending().await,
            }
        };
        let reply = tokio::select! {
            biased;
            reply = reply => Some(reply),
            () = over => None,
            () = self.given_up.cancelled() => None,
        };
        let is_there = reply.is_some();
        if let Some(reply) = reply {
            self.apply(reply);
        }
        is_there
    }

    fn apply(&mut self, Reply { place, what }: Reply) {
        let vote = &mut self.votes[place];
        match what {
            What::Asked { asks, result } if asks == vote.asks => {
                (vote.is_open, vote.is_in_line) = (false, false);
                match result {
                    Ok(guard) => {
                        (vote.token, vote.is_raised, vote.refused) = (guard.token(), false, None);
                        (vote.guard, vote.error) = (Some(guard), None);
                    }
                    Err(error) => vote.error = Some(error),
                }
            }
            What::Asked { result, .. } => give_up(result.ok()),
            What::Raised {
                token,
                result,
                is_ahead,
            } => {
                vote.is_open = false;
                match result {
                    Ok(()) => (vote.token, vote.is_raised, vote.error) = (token, true, None),
                    Err(error) if is_ahead => {
                        (vote.refused, vote.error) = (Some(token), Some(error));
                    }
                    Err(error) => {
                        vote.error = Some(error);
                        give_up(vote.guard.take());
                    }
                }
            }
        }
    }

    /// Applies replies until a majority is as it should be, or cannot be any more. With patience it then waits for the
    /// others as long again, but not for servers that are down.
    async fn collect(&mut self, is: impl Fn(&Vote) -> bool, patience: Option<Duration>) {
        let begun = Instant::now();
        let mut over = None;
        while self.is_open() {
            let (done, open) = (self.count(&is), self.count(|vote| vote.is_open));
            if done >= self.quorum.majority || done + open < self.quorum.majority {
                let votes = self.votes.iter().enumerate();
                let is_awaited = votes
                    .into_iter()
                    .any(|(place, vote)| vote.is_open && !self.member(place).is_down());
                let Some(patience) = patience.filter(|_| is_awaited) else {
                    return;
                };
                let again = begun.elapsed().max(patience).min(5 * patience);
                over = over.or(Some(Instant::now() + again));
            }
            if !self.next(over).await {
                return;
            }
        }
    }

    /// The highest token that a majority can have, as far as is known.
    fn common(&self) -> Option<u64> {
        let granted = self.votes.iter().filter(|vote| vote.guard.is_some());
        let can = |token: &u64| self.count(|vote| vote.can_have(*token)) >= self.quorum.majority;
        granted.map(|vote| vote.token).filter(can).max()
    }

    /// Gives a majority one token, which it returns. Servers whose clocks differ are left out, as far as a majority
    /// remains.
    pub(super) async fn raise(&mut self) -> Option<u64> {
        loop {
            let token = self.common();
            let mut is_sent = false;
            for place in 0..self.votes.len() {
                let vote = &self.votes[place];
                if let Some(token) = token
                    .filter(|token| vote.can_have(*token) && !vote.is_open && !vote.has(*token))
                {
                    self.raise_to(place, token);
                    is_sent = true;
                }
            }
            let has = |vote: &Vote| token.is_some_and(|token| vote.has(token));
            self.collect(has, None).await;
            if self.count(has) >= self.quorum.majority {
                return token;
            }
            // Once something was sent, more is known of what they can have. Else a server that has not answered yet may
            // make a majority.
            let has_news = is_sent || self.is_open() && self.next(None).await;
            if !has_news || self.given_up.is_cancelled() {
                return None;
            }
        }
    }

    fn raise_to(&mut self, place: usize, token: u64) {
        let vote = &mut self.votes[place];
        let Some(guard) = &vote.guard else { return };
        vote.is_open = true;
        let hold = Arc::clone(guard.hold());
        self.calls.push(Box::pin(async move {
            let (result, is_ahead) = match hold.raise(token).await {
                Ok(()) => (Ok(()), false),
                Err((error, is_ahead)) => (Err(error), is_ahead),
            };
            Reply {
                place,
                what: What::Raised {
                    token,
                    result,
                    is_ahead,
                },
            }
        }));
    }

    /// Gives up what has been granted. The next round does not meet it.
    pub(super) async fn give_back(&mut self) {
        let granted = self
            .votes
            .iter_mut()
            .filter(|vote| !vote.is_open)
            .filter_map(|vote| vote.guard.take());
        join_all(granted.map(Guard::give_up)).await;
    }

    /// Why the acquire fails: because it would not do better later, or its time is over.
    pub(super) fn failure(&self, is_over: bool) -> Option<Error> {
        let (mut kind, mut cause) = (
            ErrorKind::Unavailable,
            "no majority of the servers".to_owned(),
        );
        let (mut answers, mut refusals) = (0, 0);
        for (place, vote) in self.votes.iter().enumerate() {
            if let Some(error) = &vote.error {
                let _ = write!(
                    cause,
                    "; {}: {}: {}",
                    self.member(place).name,
                    error.kind().name(),
                    error.cause()
                );
            }
            let error = vote.error.as_ref().map(Error::kind);
            if vote.is_in_line || vote.is_busy() || error.is_none() && !vote.is_open {
                answers += 1;
            } else if let Some(error) = error
                && !matches!(error, ErrorKind::Unavailable | ErrorKind::Lost)
                && vote.refused.is_none()
            {
                refusals += 1; // the same again
                kind = error;
            }
        }
        let majority = self.quorum.majority;
        let is_differing = self.votes.iter().any(|vote| vote.refused.is_some());
        if self.votes.len() - refusals >= majority {
            kind = match () {
                () if is_differing && self.has_majority() => ErrorKind::Refused,
                () if !is_over && !self.given_up.is_cancelled() => return None,
                () if answers >= majority => ErrorKind::Busy,
                () => ErrorKind::Unavailable,
            };
        }
        Some(self.failed(kind, cause))
    }

    /// Makes the lock of what has this token.
    pub(super) fn hand_over(&mut self, token: u64) -> Arc<Together> {
        let lock = Together::new(Arc::clone(&self.quorum), Arc::clone(&self.key), token);
        self.hand(&lock);
        lock
    }

    /// Adds to the lock what has its token, until it ends.
    fn hand(&mut self, lock: &Arc<Together>) {
        for (place, vote) in self.votes.iter_mut().enumerate() {
            if !vote.is_open
                && vote.is_raised
                && vote.token == lock.token
                && let Some(guard) = vote.guard.take()
            {
                vote.guard = lock.add(place, guard);
            }
        }
    }

    /// Gives back the rest, in the background. Raises that are answered late still join the lock.
    pub(super) fn finish(mut self, lock: Option<Arc<Together>>) {
        self.leave_lines();
        if lock.is_none() {
            self.given_up.cancel();
        }
        background().spawn(async move {
            loop {
                self.give_back().await;
                let Some(reply) = self.calls.next().await else {
                    return;
                };
                self.apply(reply);
                if let Some(lock) = &lock {
                    self.hand(lock);
                }
            }
        });
    }
}

fn give_up(guard: Option<Guard>) {
    if let Some(guard) = guard {
        background().spawn(guard.give_up());
    }
}
