//! What a program knows, and the rules by which it changes: the client of docs/client-protocol.md in small.

use std::collections::{BTreeMap, BTreeSet};

use super::{LEASE, REPLY, Reply, Request, Rule, What};

/// Requests to be sent, connections to be closed, and the numbers for new ones.
#[derive(Default)]
pub(super) struct Outbox {
    pub(super) last_connection: u64,
    pub(super) last_call: u64,
    /// Connection, call, request.
    pub(super) sent: Vec<(u64, u64, Request)>,
    pub(super) closed: Vec<u64>,
}

/// One acquire: first a wait, then a grant.
pub(super) struct Claim {
    pub(super) stage: Stage,
    pub(super) session: Option<u64>,
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

/// A release that is not finished: owner, token (none: all, and waits), and the session if the user asked for it.
pub(super) type Unfinished = (u64, Option<u64>, Option<u64>);

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
    Move {
        owner: u64,
        session: u64,
        token: u64,
    },
    Finish(Unfinished),
    Grants {
        called_before: BTreeSet<u64>,
    },
    Release {
        owner: u64,
    },
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
    pub(super) left_out: &'static [Rule],
    pub(super) session: Option<u64>,
    seen: u64,
    pub(super) claims: BTreeMap<u64, Claim>,
    under_way: BTreeMap<u64, Call>,
    /// Tokens that were reported as lost, and the last call then under way.
    losses: BTreeMap<u64, u64>,
    excess_since: Option<u64>,
    pub(super) unfinished: BTreeSet<Unfinished>,
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
    pub(super) fn new(now: u64, wait: Option<u64>) -> Self {
        Self {
            stage: Stage::Asked,
            session: None,
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

    /// When the user's time to wait is over.
    fn end(&self) -> u64 {
        self.wait.map_or(u64::MAX, |wait| self.since + wait)
    }

    /// When the client gives up by itself.
    pub(super) fn last(&self) -> u64 {
        let beyond = if self.stage == Stage::InLine {
            REPLY
        } else {
            0
        };
        self.end().max(self.since + REPLY).saturating_add(beyond)
    }
}

impl Program {
    fn obeys(&self, rule: Rule) -> bool {
        !self.left_out.contains(&rule)
    }

    /// Whether a call in the name of this owner is under way, or a release is not finished.
    pub(super) fn uses(&self, owner: u64) -> bool {
        let calls = self.under_way.values().filter_map(Call::owner);
        let unfinished = self.unfinished.iter().map(|(owner, _, _)| *owner);
        calls.chain(unfinished).any(|it| it == owner)
    }

    /// Nothing is held, waited for, or left to release.
    pub(super) fn is_idle(&self) -> bool {
        self.claims.is_empty() && self.unfinished.is_empty()
    }

    fn send(
        &mut self,
        outbox: &mut Outbox,
        now: u64,
        (purpose, request): (Purpose, Request),
        (connection, time): (Option<u64>, u64),
    ) {
        let is_of_loop = connection.is_some();
        let connection = connection.unwrap_or_else(|| {
            outbox.last_connection += 1;
            outbox.last_connection
        });
        outbox.last_call += 1;
        let call = Call {
            purpose,
            connection,
            sent: now,
            due: now + time,
            is_of_loop,
        };
        self.under_way.insert(outbox.last_call, call);
        outbox.sent.push((connection, outbox.last_call, request));
    }

    /// Asks for a lock, if it is time to.
    pub(super) fn ask(&mut self, outbox: &mut Outbox, now: u64, owner: u64) {
        let Some(session) = self.session else { return };
        let claim = self.claims.get_mut(&owner).expect("a claim");
        let is_due = claim.stage == Stage::Asked && !claim.is_asking;
        if is_due && claim.no_session != Some(session) {
            let request = claim.ask(owner, session, now);
            let purpose = Purpose::Ask { owner, session };
            self.send(outbox, now, (purpose, request), (None, REPLY / 2));
        }
    }

    /// The user gives up a wait. True when the server may know of it.
    pub(super) fn give_up(&mut self, outbox: &mut Outbox, now: u64, owner: u64) -> bool {
        let claim = self.claims.remove(&owner).expect("a claim");
        let is_known = claim.open > 0 || matches!(claim.stage, Stage::InLine | Stage::Held);
        if is_known {
            let cancel = (owner, None, None);
            self.unfinished.insert(cancel);
            let request = self.finish(cancel);
            let purpose = Purpose::Finish(cancel);
            self.send(outbox, now, (purpose, request), (None, REPLY));
        }
        is_known
    }

    /// The user's release, or a repetition of it.
    pub(super) fn release(&mut self, outbox: &mut Outbox, now: u64, it: (u64, u64, Option<u64>)) {
        let (owner, token, session) = it;
        let request = Request::Release {
            owner,
            token: Some(token),
            session,
        };
        let purpose = Purpose::Release { owner };
        self.send(outbox, now, (purpose, request), (None, REPLY));
    }

    fn finish(&self, (owner, token, session): Unfinished) -> Request {
        let named = if self.obeys(Rule::OnlyUserNamesSession) {
            session
        } else {
            session.or(self.session)
        };
        Request::Release {
            owner,
            token,
            session: named,
        }
    }

    /// Calls without a reply are given up, and the loop goes on.
    pub(super) fn go_on(&mut self, outbox: &mut Outbox, now: u64) {
        let over = self.under_way.iter();
        let over: Vec<_> = over
            .filter(|(_, call)| call.due <= now)
            .map(|(number, _)| *number)
            .collect();
        for number in over {
            let Some(call) = self.under_way.remove(&number) else {
                continue; // it was on the loop's connection
            };
            if call.is_of_loop {
                let began = call.sent;
                self.unanswered(call);
                self.reconnect(outbox, now);
                self.silent(began);
            } else {
                outbox.closed.push(call.connection);
                self.unanswered(call);
            }
        }
        if !self.obeys(Rule::SilenceAfterSure) {
            self.silent(now);
        }
        if self.connection.is_none() && now >= self.next_try {
            outbox.last_connection += 1;
            self.connection = Some(outbox.last_connection);
            self.has_sent_due = false;
        }
        let is_answered = !self.under_way.values().any(|call| call.is_of_loop);
        if let Some(connection) = self.connection.filter(|_| is_answered) {
            self.turn(outbox, now, connection);
        }
    }

    fn turn(&mut self, outbox: &mut Outbox, now: u64, connection: u64) {
        let on = |time| (Some(connection), time);
        let Some(session) = self.session else {
            return self.send(outbox, now, (Purpose::Open, Request::Open), on(REPLY));
        };
        if !std::mem::replace(&mut self.has_sent_due, true) {
            let due = self.due(session, now);
            if !due.is_empty() {
                for it in due {
                    self.send(outbox, now, it, on(REPLY));
                }
                return;
            }
        }
        self.has_sent_due = false;
        let is_unsure = self.held().any(|(_, claim)| claim.sure <= now);
        let block = if is_unsure { 100 } else { LEASE / 3 };
        let of_any = !self.obeys(Rule::PollOfThisSession);
        let known = self
            .held()
            .filter(|(_, claim)| of_any || claim.session == Some(session));
        let known = known.map(|(owner, claim)| (*owner, claim.token)).collect();
        let purpose = Purpose::Poll { session, known };
        let request = Request::Poll { session, block };
        self.send(outbox, now, (purpose, request), on(block + REPLY));
    }

    /// What is to be sent before a POLL.
    fn due(&mut self, session: u64, now: u64) -> Vec<(Purpose, Request)> {
        let mut due = Vec::new();
        for (owner, claim) in &mut self.claims {
            let (owner, token) = (*owner, claim.token);
            match claim.stage {
                Stage::Held if claim.session != Some(session) => due.push((
                    Purpose::Move {
                        owner,
                        session,
                        token,
                    },
                    Request::Renew {
                        owner,
                        session,
                        token,
                    },
                )),
                Stage::InLine
                    if claim.session != Some(session) && claim.end() > now && !claim.is_asking =>
                {
                    let request = claim.ask(owner, session, now);
                    due.push((Purpose::Ask { owner, session }, request));
                }
                _ => {}
            }
        }
        for release in &self.unfinished {
            due.push((Purpose::Finish(*release), self.finish(*release)));
        }
        let has_strays = self.excess_since.is_some_and(|since| now > since + LEASE);
        if has_strays && self.obeys(Rule::Strays) {
            let called_before = self.under_way.values().filter_map(Call::owner).collect();
            let purpose = Purpose::Grants { called_before };
            due.push((purpose, Request::Grants { session }));
        }
        due
    }

    fn held(&self) -> impl Iterator<Item = (&u64, &Claim)> {
        let claims = self.claims.iter();
        claims.filter(|(_, claim)| claim.stage == Stage::Held)
    }

    fn reconnect(&mut self, outbox: &mut Outbox, now: u64) {
        outbox.closed.extend(self.connection.take());
        self.next_try = now + self.pause;
        self.pause = (2 * self.pause).clamp(50, 1000);
        let of_loop = self.under_way.iter();
        let of_loop: Vec<_> = of_loop
            .filter(|(_, call)| call.is_of_loop)
            .map(|(number, _)| *number)
            .collect();
        for number in of_loop {
            let call = self.under_way.remove(&number).expect("a call");
            self.unanswered(call);
        }
    }

    fn unanswered(&mut self, call: Call) {
        match call.purpose {
            Purpose::Ask { owner, .. } => {
                if let Some(claim) = self.claims.get_mut(&owner) {
                    claim.is_asking = false;
                    claim.is_unanswered = true;
                }
            }
            Purpose::Release { owner } => {
                self.release_answers.insert(owner, false);
            }
            _ => {}
        }
    }

    /// A reply has come.
    pub(super) fn reply(&mut self, outbox: &mut Outbox, now: u64, number: u64, reply: Reply) {
        let Some(call) = self.under_way.get(&number) else {
            return; // given up
        };
        let sent = call.sent;
        match &call.purpose {
            Purpose::Open => {
                if let Reply::Session(session) = reply {
                    self.session = Some(session);
                    self.seen = 0;
                    self.excess_since = None;
                }
            }
            Purpose::Poll { session, known } => {
                let (session, known) = (*session, known.clone());
                match reply {
                    Reply::Polled {
                        sure_ms,
                        grants,
                        events,
                    } => {
                        self.pause = 0;
                        let sure = sent + sure_ms.unwrap_or(LEASE);
                        for event in events {
                            if event.number > self.seen {
                                self.seen = event.number;
                                let last_call = outbox.last_call;
                                self.event((session, sure), event.owner, event.what, last_call);
                            }
                        }
                        self.polled((session, sure), &known);
                        let known = self.held().filter(|(_, it)| it.session == Some(session));
                        let has_more = grants > known.count() + self.unfinished.len();
                        let since = self.excess_since.unwrap_or(sent);
                        self.excess_since = has_more.then_some(since);
                        self.silent(sent);
                    }
                    Reply::NoSession => self.session = None,
                    _ => {
                        self.under_way.remove(&number);
                        self.reconnect(outbox, now);
                    }
                }
            }
            Purpose::Ask { owner, session } => {
                let (owner, session) = (*owner, *session);
                self.asked(owner, session, sent, &reply);
            }
            Purpose::Move {
                owner,
                session,
                token,
            } => {
                let (owner, session, token) = (*owner, *session, *token);
                let claim = self.claims.get_mut(&owner);
                match (reply, claim.filter(|it| it.token == token)) {
                    (Reply::Grant(_), Some(claim)) => {
                        claim.session = Some(session);
                        claim.sure = claim.sure.max(sent + LEASE);
                    }
                    (Reply::Gone, Some(_)) => self.lose(owner, false),
                    (Reply::NoSession, _) => self.session = None,
                    _ => {}
                }
            }
            Purpose::Finish(release) => {
                let release = *release;
                if matches!(reply, Reply::Released | Reply::Gone) {
                    self.unfinished.remove(&release);
                }
            }
            Purpose::Grants { called_before } => {
                let called_before = called_before.clone();
                self.excess_since = None;
                if let Reply::Listed(grants) = reply {
                    for (owner, token) in grants {
                        let of_any = self.obeys(Rule::WaitsAreNoStrays);
                        let claim = self.claims.get(&owner);
                        let is_known = claim.is_some_and(|it| of_any || it.token == token)
                            || of_any && (called_before.contains(&owner) || self.uses(owner));
                        if !is_known {
                            self.unfinished.insert((owner, Some(token), None));
                        }
                    }
                }
            }
            Purpose::Release { owner } => {
                let owner = *owner;
                self.release_answers.insert(owner, true);
            }
        }
        self.under_way.remove(&number);
        let first = self.under_way.keys().next().copied().unwrap_or(u64::MAX);
        self.losses.retain(|_, last| *last >= first);
    }

    fn asked(&mut self, owner: u64, session: u64, sent: u64, reply: &Reply) {
        if let Some(claim) = self.claims.get_mut(&owner) {
            claim.is_asking = false;
            claim.open -= 1;
        }
        if let Reply::Grant(token) = *reply {
            if !self.granted(owner, token, session, sent + LEASE) {
                self.unfinished.insert((owner, Some(token), None));
            }
            return;
        }
        let is_current = self.session == Some(session);
        let Some(claim) = self.claims.get_mut(&owner) else {
            if matches!(reply, Reply::Place) {
                self.unfinished.insert((owner, None, None));
            }
            return;
        };
        if !matches!(claim.stage, Stage::Asked | Stage::InLine) {
            return;
        }
        match reply {
            Reply::Place if is_current => {
                claim.stage = Stage::InLine;
                claim.session = Some(session);
            }
            Reply::Busy => claim.stage = Stage::Over,
            Reply::NoSession => claim.no_session = Some(session),
            _ => {}
        }
    }

    /// False when the grant is to be given back.
    fn granted(&mut self, owner: u64, token: u64, session: u64, sure: u64) -> bool {
        let is_lost = self.losses.contains_key(&token) && self.obeys(Rule::LossBeforeGrant);
        let Some(claim) = self.claims.get_mut(&owner) else {
            return is_lost;
        };
        let waits = matches!(claim.stage, Stage::Asked | Stage::InLine);
        if is_lost {
            if waits {
                claim.stage = Stage::Asked;
            }
            return true;
        }
        if !waits && claim.stage != Stage::Held {
            return false;
        }
        if token < claim.token {
            return true; // an earlier one, told late
        }
        if token > claim.token && claim.is_handed_over {
            return false;
        }
        claim.sure = if token == claim.token {
            claim.sure.max(sure)
        } else {
            sure
        };
        claim.stage = Stage::Held;
        claim.token = token;
        claim.session = Some(session);
        true
    }

    fn event(&mut self, (session, sure): (u64, u64), owner: u64, what: What, last_call: u64) {
        match what {
            What::Granted(token) => {
                if !self.granted(owner, token, session, sure) && !self.uses(owner) {
                    self.unfinished.insert((owner, Some(token), None));
                }
            }
            What::Ended => {
                if let Some(claim) = self.claims.get_mut(&owner)
                    && matches!(claim.stage, Stage::Asked | Stage::InLine)
                {
                    claim.stage = Stage::Over;
                }
            }
            What::Lost(token) => {
                self.heard.insert(token);
                if !self.under_way.is_empty() {
                    self.losses.insert(token, last_call);
                }
                self.unfinished.remove(&(owner, Some(token), None));
                let claim = self.claims.get(&owner);
                if claim.is_some_and(|it| it.stage == Stage::Held && it.token == token) {
                    self.lose(owner, false);
                }
            }
        }
    }

    /// The reply to a POLL counts for these grants.
    fn polled(&mut self, (session, sure): (u64, u64), known: &[(u64, u64)]) {
        let (of_any, of_new) = (
            !self.obeys(Rule::PollOfThisSession),
            !self.obeys(Rule::KnownWhenSent),
        );
        for (owner, claim) in &mut self.claims {
            let is_of_this = of_any || claim.session == Some(session);
            let is_known = of_new || known.contains(&(*owner, claim.token));
            if claim.stage == Stage::Held && is_of_this && is_known {
                claim.sure = claim.sure.max(sure);
            }
        }
    }

    /// A try that began then has made these grants not sure again.
    fn silent(&mut self, since: u64) {
        let silent = self.held().filter(|(_, claim)| claim.sure < since);
        let silent: Vec<_> = silent.map(|(owner, it)| (*owner, it.token)).collect();
        for (owner, token) in silent {
            self.unfinished.insert((owner, Some(token), None));
            self.lose(owner, true);
        }
    }

    fn lose(&mut self, owner: u64, by_silence: bool) {
        let claim = self.claims.get_mut(&owner).expect("a claim");
        if claim.stage == Stage::Held {
            claim.stage = Stage::Lost;
            self.told.push((claim.token, by_silence));
        }
    }
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
        Request::Acquire {
            owner,
            session,
            queue,
        }
    }
}

impl Call {
    fn owner(&self) -> Option<u64> {
        match self.purpose {
            Purpose::Ask { owner, .. }
            | Purpose::Move { owner, .. }
            | Purpose::Release { owner }
            | Purpose::Finish((owner, _, _)) => Some(owner),
            Purpose::Open | Purpose::Poll { .. } | Purpose::Grants { .. } => None,
        }
    }
}
