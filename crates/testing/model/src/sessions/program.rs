//! A program's state, and the rules by which it changes: a small client after docs/client-protocol.md.

mod replies;
mod turns;

use std::collections::{BTreeMap, BTreeSet};

use super::{Asks, FIXED_LEASE, Move, REPLY, Release, Request, Rule};

/// Requests to be sent, connections to be closed, and the numbers for new ones.
#[derive(Default)]
pub(super) struct Outbox {
    pub(super) now: u64,
    /// The last number of a connection or call.
    pub(super) last: u64,
    /// Connection, call, request.
    pub(super) sent: Vec<(u64, u64, Request)>,
    pub(super) closed: Vec<u64>,
}

/// One acquire: first a wait, then a grant.
pub(super) struct Claim {
    pub(super) stage: Stage,
    /// Where it waits, or what renews it; none: nothing.
    pub(super) session: Option<u64>,
    lease: u64,
    pub(super) token: u64,
    /// Until then nobody else has the lock.
    pub(super) sure: u64,
    /// The user has the grant.
    pub(super) is_handed_over: bool,
    /// How long the user waits, from when on; none: without a limit.
    pub(super) wait: Option<u64>,
    pub(super) since: u64,
    /// An ACQUIRE is under way.
    is_asking: bool,
    /// ACQUIREs without a reply, which may arrive yet.
    open: u32,
    /// One of them had no reply in time: an event of it may come yet.
    pub(super) is_unanswered: bool,
    no_session: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Asked,
    InLine,
    Held,
    Lost,
    Over,
}

enum Purpose {
    Open,
    Poll {
        session: u64,
        known: Vec<(u64, u64)>,
    },
    Ask {
        owner: u64,
        session: u64,
    },
    Move(Move),
    Finish(Release),
    Grants {
        called_before: BTreeSet<u64>,
    },
    /// By the user, who waits for the reply where it says so.
    Release(Release, bool),
}

struct Call {
    purpose: Purpose,
    connection: u64,
    sent: u64,
    due: u64,
    is_of_loop: bool,
}

#[derive(Default)]
pub(super) struct Program {
    pub(super) left_out: Vec<Rule>,
    pub(super) session: Option<u64>,
    seen: u64,
    pub(super) claims: BTreeMap<u64, Claim>,
    under_way: BTreeMap<u64, Call>,
    /// Tokens that were reported as lost, and the last call then under way.
    losses: BTreeMap<u64, u64>,
    excess_since: Option<u64>,
    pub(super) unfinished: BTreeSet<Release>,
    /// Replies to releases of the user; false: there was none.
    pub(super) release_answers: BTreeMap<u64, bool>,
    /// Tokens of which a reply has said that they are lost.
    pub(super) heard: BTreeSet<u64>,
    /// Tokens of grants that have just been lost, and whether by silence.
    pub(super) told: Vec<(u64, bool)>,
    connection: Option<u64>,
    has_sent_due: bool,
    next_try: u64,
    pause: u64,
}

impl Claim {
    pub(super) fn new(now: u64, wait: Option<u64>, lease: u64) -> Self {
        Self {
            stage: Stage::Asked,
            session: None,
            lease,
            token: 0,
            sure: 0,
            is_handed_over: false,
            wait,
            since: now,
            is_asking: false,
            open: 0,
            is_unanswered: false,
            no_session: None,
        }
    }

    /// Its lease is not renewed: it leaves the session before the user has it.
    fn is_fixed(&self) -> bool {
        self.lease == FIXED_LEASE
    }

    /// The user can have the grant.
    pub(super) fn is_ready(&self, now: u64) -> bool {
        let is_out = !self.is_fixed() || self.session.is_none();
        self.stage == Stage::Held && self.sure > now && is_out
    }

    /// A fixed lease has ended.
    pub(super) fn has_ended(&self, now: u64) -> bool {
        self.session.is_none() && self.sure <= now
    }

    /// When the user's time to wait is over.
    fn end(&self) -> u64 {
        self.wait.map_or(u64::MAX, |wait| self.since + wait)
    }

    /// When the client gives up by itself.
    pub(super) fn last(&self) -> u64 {
        let beyond = u64::from(self.stage == Stage::InLine) * REPLY;
        self.end().max(self.since + REPLY).saturating_add(beyond)
    }
}

impl Outbox {
    /// The number of a new connection or call.
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

impl Program {
    fn obeys(&self, rule: Rule) -> bool {
        !self.left_out.contains(&rule)
    }

    /// Whether a call in the name of this owner is under way, or a release is not finished.
    pub(super) fn uses(&self, owner: u64) -> bool {
        let calls = self.calls_of(owner).filter_map(Call::owner);
        let unfinished = self.unfinished.iter().map(|(owner, _, _)| *owner);
        calls.chain(unfinished).any(|it| it == owner)
    }

    fn calls_of(&self, owner: u64) -> impl Iterator<Item = &Call> {
        let calls = self.under_way.values();
        calls.filter(move |call| call.owner() == Some(owner))
    }

    /// Nothing is held, waited for, or left to release.
    pub(super) fn is_idle(&self) -> bool {
        self.claims.is_empty() && self.unfinished.is_empty()
    }

    fn send(
        &mut self,
        outbox: &mut Outbox,
        (purpose, request): (Purpose, Request),
        (connection, time): (Option<u64>, u64),
    ) {
        let is_of_loop = connection.is_some();
        let connection = connection.unwrap_or_else(|| outbox.next());
        let (number, now) = (outbox.next(), outbox.now);
        let call = Call {
            purpose,
            connection,
            sent: now,
            due: now + time,
            is_of_loop,
        };
        self.under_way.insert(number, call);
        outbox.sent.push((connection, number, request));
    }

    /// Asks for a lock, or takes its grant out of the session, if it is time to.
    pub(super) fn ask(&mut self, outbox: &mut Outbox, owner: u64) {
        let is_called = self.calls_of(owner).next().is_some();
        let Some(session) = self.session else { return };
        let claim = self.claims.get_mut(&owner).expect("a claim");
        if claim.stage == Stage::Held && claim.is_fixed() && !is_called {
            let moved = moved(owner, None, claim.token);
            return self.send(outbox, moved, (None, REPLY));
        }
        let is_due = claim.stage == Stage::Asked && !claim.is_asking;
        if is_due && claim.no_session != Some(session) {
            let request = claim.ask(owner, session, outbox.now);
            let purpose = Purpose::Ask { owner, session };
            self.send(outbox, (purpose, request), (None, REPLY / 2));
        }
    }

    /// The user gives up a wait. True when the server may know of it.
    pub(super) fn give_up(&mut self, outbox: &mut Outbox, owner: u64) -> bool {
        let claim = self.claims.remove(&owner).expect("a claim");
        let is_known = claim.open > 0 || matches!(claim.stage, Stage::InLine | Stage::Held);
        if is_known {
            let cancel = (owner, None, None);
            self.unfinished.insert(cancel);
            let finish = self.finish(cancel);
            self.send(outbox, finish, (None, REPLY));
        }
        is_known
    }

    /// The user's release, or a repetition of it.
    pub(super) fn release(&mut self, outbox: &mut Outbox, release: Release, is_awaited: bool) {
        let purpose = Purpose::Release(release, is_awaited);
        self.send(outbox, (purpose, Request::Release(release)), (None, REPLY));
    }

    fn finish(&self, release: Release) -> (Purpose, Request) {
        let (owner, token, session) = release;
        let names_no_other = self.obeys(Rule::OnlyUserNamesSession);
        let named = session.or(self.session.filter(|_| !names_no_other));
        let request = Request::Release((owner, token, named));
        (Purpose::Finish(release), request)
    }

    /// The held grants in a session.
    fn in_session(&self) -> impl Iterator<Item = (&u64, &Claim)> {
        let claims = self.claims.iter();
        claims.filter(|(_, claim)| claim.stage == Stage::Held && claim.session.is_some())
    }
}

/// A grant is to go into this session, or out of any.
fn moved(owner: u64, session: Option<u64>, token: u64) -> (Purpose, Request) {
    let moved = Move {
        owner,
        session,
        token,
    };
    (Purpose::Move(moved), Request::Renew(moved))
}

impl Claim {
    fn ask(&mut self, owner: u64, session: u64, now: u64) -> Request {
        self.is_asking = true;
        self.open += 1;
        let queue = match self.wait {
            None => Some(0),
            Some(0) => None,
            Some(_) => Some(self.end().saturating_sub(now).max(1)),
        };
        Request::Acquire(Asks {
            owner,
            session,
            queue,
            lease: self.lease,
        })
    }
}

impl Call {
    fn owner(&self) -> Option<u64> {
        match self.purpose {
            Purpose::Ask { owner, .. }
            | Purpose::Move(Move { owner, .. })
            | Purpose::Release((owner, ..), _)
            | Purpose::Finish((owner, ..)) => Some(owner),
            Purpose::Open | Purpose::Poll { .. } | Purpose::Grants { .. } => None,
        }
    }
}
