//! What an acquire has got of each server.

use super::guard::Together;
use super::{Member, Shared};
use crate::background::{background, sleep};
use crate::error::{Error, ErrorKind};
use crate::guard::Guard;
use crate::lock::Lock;
use crate::state::State;
use futures_util::StreamExt;
use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::FuturesUnordered;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long replies are waited for at least when a majority has answered.
pub(super) const PATIENCE: Duration = Duration::from_millis(50);

/// What an acquire has got of each server. Each of its calls has an owner of its own, so that a late one never counts for
/// another.
pub(super) struct Ballot {
    quorum: Arc<Shared>,
    pub(super) lock: Lock,
    given_up: CancellationToken,
    votes: Vec<Vote>,
    calls: FuturesUnordered<BoxFuture<'static, Reply>>,
}

/// The grant of one server.
#[derive(Default)]
struct Vote {
    guard: Option<Guard>,
    token: u64,
    /// The server has acknowledged the token.
    is_raised: bool,
    /// The token that is too far ahead of its clock.
    refused: Option<u64>,
    /// Why there is no grant, or no token.
    error: Option<Error>,
    /// An acquire or a raise is under way.
    is_open: bool,
    /// An acquire waits in line for its turn.
    is_in_line: bool,
    /// Gives up the acquire.
    leave: CancellationToken,
}

impl Vote {
    fn is_busy(&self) -> bool {
        let is_busy = |error: &Error| error.kind() == ErrorKind::Busy;
        self.error.as_ref().is_some_and(is_busy)
    }

    /// The grant stands, and the server has acknowledged the token.
    fn has(&self, token: u64) -> bool {
        self.is_raised && self.token == token && self.guard.as_ref().is_some_and(Guard::is_held)
    }

    /// The server can be raised to a token, as far as is known.
    fn can_have(&self, token: u64) -> bool {
        let is_refused = self.refused.is_some_and(|refused| token >= refused);
        self.guard.is_some() && self.token <= token && !is_refused
    }
}

/// The reply of the server at a place.
enum Reply {
    /// To the acquire that this token gives up.
    Asked(usize, CancellationToken, Result<Guard, Error>),
    /// To a raise to this token.
    Raised(usize, u64, Result<(), Error>),
}

impl Ballot {
    pub(super) fn new(quorum: Arc<Shared>, lock: Lock, given_up: CancellationToken) -> Self {
        let votes = quorum.members.iter().map(|_| Vote::default()).collect();
        Self {
            quorum,
            lock,
            given_up,
            votes,
            calls: FuturesUnordered::new(),
        }
    }

    fn member(&self, place: usize) -> &Member {
        &self.quorum.members[place]
    }

    fn is_majority(&self, is: impl Fn(&Vote) -> bool) -> bool {
        let votes = self.votes.iter().filter(|vote| is(vote));
        votes.count() >= self.quorum.majority
    }

    fn is_open(&self) -> bool {
        self.votes.iter().any(|vote| vote.is_open)
    }

    pub(super) fn has_grant(&self, place: usize) -> bool {
        self.votes[place].guard.is_some()
    }

    pub(super) fn has_majority(&self) -> bool {
        self.is_majority(|vote| vote.guard.is_some())
    }

    /// The first server that has answered.
    pub(super) fn first(&self) -> Option<usize> {
        self.votes.iter().enumerate().position(|(place, vote)| {
            let is_answer = if vote.is_in_line {
                !self.member(place).is_down()
            } else {
                vote.is_busy() && !vote.is_open
            };
            vote.guard.is_some() || is_answer
        })
    }

    /// Acquires the lock of all servers that have neither granted it nor are being asked.
    pub(super) async fn ask_rest(&mut self, wait: Duration) {
        // Nobody renews what it has with a fixed lease.
        let fixed = self.lock.terms.fixed;
        let wait = fixed.map_or(wait, |lease| wait.min(lease / 2));
        for place in 0..self.votes.len() {
            let vote = &self.votes[place];
            if vote.guard.is_none() && !vote.is_open && !vote.is_in_line {
                self.ask(place, wait, false);
            }
        }
        let has_grant = |vote: &Vote| vote.guard.is_some();
        self.collect(has_grant, Some(PATIENCE)).await;
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
        let mut lock = self.lock.clone().wait(wait);
        lock.locks = self.member(place).locks.clone();
        if is_in_line {
            lock.terms.at_most = None; // the other servers see to it
        }
        let leave = self.given_up.child_token();
        let vote = &mut self.votes[place];
        (vote.is_open, vote.is_in_line, vote.leave) = (!is_in_line, is_in_line, leave.clone());
        self.calls.push(Box::pin(async move {
            let result = lock.acquire_until(leave.clone()).await;
            Reply::Asked(place, leave, result)
        }));
    }

    /// Gives up the places in line.
    pub(super) fn leave_lines(&mut self) {
        for vote in self.votes.iter_mut().filter(|vote| vote.is_in_line) {
            vote.is_in_line = false;
            vote.leave.cancel();
        }
    }

    /// Applies a reply, if one comes in time.
    pub(super) async fn next(&mut self, over: Option<Instant>) -> bool {
        let left = |over: Instant| over.saturating_duration_since(Instant::now());
        let rest = sleep(over.map_or(Duration::MAX, left));
        let reply = tokio::select! {
            biased;
            Some(reply) = self.calls.next() => reply,
            () = rest => return false,
            () = self.given_up.cancelled() => return false,
        };
        self.apply(reply);
        true
    }

    fn apply(&mut self, reply: Reply) {
        match reply {
            Reply::Asked(_, leave, result) if leave.is_cancelled() => {
                result.ok().map(Guard::give_up);
            }
            Reply::Asked(place, _, result) => {
                let vote = &mut self.votes[place];
                (vote.is_open, vote.is_in_line) = (false, false);
                match result {
                    Ok(guard) => {
                        *vote = Vote {
                            token: guard.token(),
                            guard: Some(guard),
                            ..Vote::default()
                        }
                    }
                    Err(error) => vote.error = Some(error),
                }
            }
            Reply::Raised(place, token, result) => {
                let vote = &mut self.votes[place];
                vote.is_open = false;
                match result {
                    Ok(()) => (vote.token, vote.is_raised, vote.error) = (token, true, None),
                    Err(error) => {
                        if error.is("AHEAD") {
                            vote.refused = Some(token);
                        } else {
                            vote.guard.take().map(Guard::give_up);
                        }
                        vote.error = Some(error);
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
            if self.is_majority(&is) || !self.is_majority(|vote| is(vote) || vote.is_open) {
                let mut votes = self.votes.iter().zip(&self.quorum.members);
                let is_awaited = votes.any(|(vote, member)| vote.is_open && !member.is_down());
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
        let can = |token: &u64| self.is_majority(|vote| vote.can_have(*token));
        granted.map(|vote| vote.token).filter(can).max()
    }

    /// Gives a majority one token, which it returns. Servers whose clocks differ are left out, as far as a majority
    /// remains.
    pub(super) async fn raise(&mut self) -> Option<u64> {
        loop {
            let (token, calls) = (self.common(), self.calls.len());
            if let Some(token) = token {
                for place in 0..self.votes.len() {
                    self.raise_to(place, token);
                }
            }
            let is_sent = self.calls.len() > calls;
            let has = |vote: &Vote| token.is_some_and(|token| vote.has(token));
            self.collect(has, None).await;
            if self.is_majority(has) {
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
        let is_needed = vote.can_have(token) && !vote.is_open && !vote.has(token);
        let Some(guard) = vote.guard.as_ref().filter(|_| is_needed) else {
            return;
        };
        vote.is_open = true;
        let hold = Arc::clone(guard.hold());
        // After any failure but AHEAD it is not known which token the grant has: it has to be given up.
        let raise = move |state: &mut State, id| state[id].renew_command(Some(("RAISE", token)));
        self.calls.push(Box::pin(async move {
            let raised = hold.call("raise", raise, State::confirmed).await;
            Reply::Raised(place, token, raised)
        }));
    }

    /// Gives up what has been granted. The next round does not meet it.
    pub(super) async fn give_back(&mut self) {
        let idle = self.votes.iter_mut().filter(|vote| !vote.is_open);
        let granted = idle.filter_map(|vote| vote.guard.take());
        join_all(granted.map(Guard::give_up)).await;
    }

    /// Why the acquire fails: because it would not do better later, or its time is over.
    pub(super) fn failure(&self, is_over: bool) -> Option<Error> {
        let (mut kind, mut answers, mut refusals) = (ErrorKind::Unavailable, 0, 0);
        let mut causes = vec!["no majority of the servers".to_owned()];
        for (vote, member) in self.votes.iter().zip(&self.quorum.members) {
            let error = vote.error.as_ref().map(Error::kind);
            if let Some(error) = &vote.error {
                let (kind, cause) = (error.kind().name(), error.cause());
                causes.push(format!("{}: {kind}: {cause}", member.name));
            }
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
        Some(Error::new(kind, causes.join("; ")).of("acquire", self.lock.key()))
    }

    /// Makes the lock of what has this token.
    pub(super) fn hand_over(&mut self, token: u64) -> Arc<Together> {
        let lock = Together::new(Arc::clone(&self.quorum), self.lock.key().into(), token);
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
