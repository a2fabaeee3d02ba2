//! A server with one lock, its line and its sessions, by the module's own core.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redis_lock_core::sessions::{
    Block, EventKind, GrantName, GrantPlace, LossReason, Now, PollRefusal, SessionId,
    SessionTimeout, Sessions, Timeout,
};
use redis_lock_core::{
    Acquire, Calls, Deadline, Grant, Holder, Holders, Holds, Lease, Limit, Monotonic, Owner,
    OwnerBuf, Rules, Token, TokenClock, UnixTime, Waiter, acquire, next_in_line,
};

use super::{Event, LEASE, Reply, Request, SESSION, What};

const KEY: &[u8] = b"lock";
const USER: &[u8] = b"user";
/// The wall clock at the start, so that tokens are not 0.
const START_MS: u64 = 1_000_000;

/// Who holds the lock.
pub(super) struct Held {
    owner: [u8; 8],
    pub(super) token: u64,
    end: u64,
}

#[derive(Default)]
pub(super) struct Server {
    calls: Calls,
    sessions: Sessions,
    clock: TokenClock,
    pub(super) held: Option<Held>,
    time: u64,
    last_session: u64,
    /// The POLLs that wait: connection and call.
    polls: BTreeMap<SessionId, (u64, u64)>,
    /// Replies to be sent: connection, call, reply.
    pub(super) replies: Vec<(u64, u64, Reply)>,
}

impl Server {
    pub(super) fn at(&mut self, time: u64) {
        self.time = time;
    }

    pub(super) fn stalled(&mut self, ms: u64) {
        self.sessions.stalled(Duration::from_millis(ms));
    }

    /// Nobody holds the lock or waits for it.
    pub(super) fn is_free(&self) -> bool {
        self.held.is_none() && self.calls.is_empty()
    }

    pub(super) fn has_token(&self, token: u64) -> bool {
        self.held.as_ref().is_some_and(|held| held.token == token)
    }

    /// A request has arrived on a connection.
    pub(super) fn request(&mut self, connection: u64, call: u64, request: &Request) {
        self.refresh();
        let reply = match *request {
            Request::Open => self.open(connection),
            Request::Poll { session, block } => match self.poll(session, connection, call, block) {
                Some(refused) => refused,
                None => return,
            },
            Request::Acquire {
                owner,
                session,
                queue,
            } => self.acquire(owner, session, queue),
            Request::Renew {
                owner,
                session,
                token,
            } => self.renew(owner, session, token),
            Request::Release {
                owner,
                token,
                session,
            } => self.release(owner, token, session),
            Request::Grants { session } => self.grants(session),
        };
        self.replies.push((connection, call, reply));
        self.serve();
    }

    /// A connection has closed.
    pub(super) fn closed(&mut self, connection: u64) {
        let now = self.now();
        for session in self.sessions.disconnected(connection, now) {
            self.calls.pass_over(session, true, None, usize::MAX);
        }
        self.polls.retain(|_, (of, _)| *of != connection);
    }

    /// DEL. Returns the token of the grant, if there was one.
    pub(super) fn delete(&mut self) -> Option<u64> {
        self.refresh();
        let token = self.held.take()?.token;
        self.lost(token, LossReason::Deleted);
        Some(token)
    }

    /// What the module's timer does.
    pub(super) fn tick(&mut self) {
        self.refresh();
        let now = self.now();
        while let Some(timeout) = self.sessions.take_timeout(now) {
            match timeout {
                Timeout::Away(session) => {
                    self.calls.pass_over(session, true, None, usize::MAX);
                }
                Timeout::Ended(session) => {
                    let ids: Vec<_> = self.calls.of_session(session).collect();
                    for id in ids {
                        self.calls.remove(id);
                    }
                }
            }
        }
        while self.sessions.sweep(100) {}
        while let Some((end, id)) = self.calls.next_end()
            && end <= now.monotonic
        {
            self.ended(id, "timeout");
        }
        self.serve();
        while let Some(session) = self.sessions.next_poll(now) {
            self.judge_poll(session);
        }
    }

    fn now(&self) -> Now {
        Now {
            monotonic: Monotonic(self.time * 1000),
            unix: UnixTime::from_micros((START_MS + self.time) * 1000),
        }
    }

    fn end_of_lease(&self) -> u64 {
        START_MS + self.time + LEASE
    }

    fn lost(&mut self, token: u64, reason: LossReason) {
        let now = self.now();
        self.sessions.lost(name(token), reason, now);
    }

    /// Renews what is due, and removes what has ended.
    fn refresh(&mut self) {
        let now = self.now();
        while let Some(grant) = self.sessions.next_due(now) {
            let end = self.end_of_lease();
            match &mut self.held {
                Some(held)
                    if held.token == grant.token.number()
                        && !Deadline::At(held.end).has_passed(now.unix) =>
                {
                    held.end = end;
                    self.sessions.renewed(&grant, Deadline::At(end), now);
                }
                _ => self.sessions.lost(grant.name(), LossReason::Expired, now),
            }
        }
        if let Some(held) = &self.held
            && Deadline::At(held.end).has_passed(now.unix)
        {
            let token = held.token;
            self.held = None;
            self.lost(token, LossReason::Expired);
        }
    }

    /// Grants the lock to those in line while there is room.
    fn serve(&mut self) {
        let now = self.now();
        loop {
            let holders = self.holders();
            let next = next_in_line(&self.calls, (0, KEY), holders.as_ref(), None, 1);
            let Some((id, waiter)) = next.and_then(|id| Some((id, &self.calls.get(id)?.waiter)))
            else {
                return;
            };
            let (owner, session) = (waiter.owner.clone(), waiter.session.expect("a session"));
            let Some(token) = self.granted(owner.as_owner(), false) else {
                self.ended(id, "refused");
                continue;
            };
            self.calls.grant_queued(id, core_token(token));
            self.join(session, &owner, token);
            let kind = EventKind::Granted {
                token: core_token(token),
                holds: 1,
                lease: lease(),
                limit: 1,
            };
            self.sessions.report(session, &Arc::from(KEY), &owner, kind);
            debug_assert!(self.now() == now, "time stands still");
        }
    }

    fn ended(&mut self, id: redis_lock_core::CallId, why: &'static str) {
        if let Some(call) = self.calls.remove(id)
            && let Some(session) = call.waiter.session
        {
            let kind = EventKind::Ended(why.into());
            let (key, owner) = (Arc::from(KEY), &call.waiter.owner);
            self.sessions.report(session, &key, owner, kind);
        }
    }

    fn holders(&self) -> Option<Holders<'_>> {
        let held = self.held.as_ref()?;
        Some(Holders::Exclusive(Holder {
            owner: Owner::new(&held.owner)?,
            grant: Grant {
                token: core_token(held.token),
                holds: Holds::ONE,
                lease: lease(),
            },
            limit: Limit::ONE,
            end: Deadline::At(held.end),
        }))
    }

    /// The rules judge an acquire with `HOLDS 1`; the token, if it is granted.
    fn granted(&mut self, owner: Owner<'_>, in_line: bool) -> Option<u64> {
        const RULES: Rules = Rules {
            default_lease: Lease::MAX,
            max_token_lead_ms: 0,
            max_holders: 1,
        };
        let call = Acquire {
            owner,
            limit: Limit::ONE,
            lease: Some(lease()),
            holds: Some(Holds::ONE),
            token: None,
        };
        let (mut clock, unix) = (self.clock, self.now().unix);
        let judged = acquire(
            self.holders().as_ref(),
            &call,
            in_line,
            &RULES,
            unix,
            &mut clock,
        );
        let token = judged.ok()??.holder.grant.token.number();
        self.clock = clock;
        self.held = Some(Held {
            owner: owner.bytes().try_into().expect("eight bytes"),
            token,
            end: self.end_of_lease(),
        });
        Some(token)
    }

    fn join(&mut self, session: SessionId, owner: &OwnerBuf, token: u64) {
        let (now, end) = (self.now(), Deadline::At(self.end_of_lease()));
        self.sessions
            .join(session, name(token), owner, lease(), end, now);
    }

    fn open(&mut self, client_id: u64) -> Reply {
        self.last_session += 1;
        let opening = redis_lock_core::sessions::Opening {
            user: USER,
            database: 0,
            client_id,
            name: b"",
            timeout: SessionTimeout::from_millis(SESSION).expect("a timeout"),
        };
        let now = self.now();
        let opened = self.sessions.open(id(self.last_session), opening, now);
        assert!(opened, "a new id");
        Reply::Session(self.last_session)
    }

    fn poll(&mut self, session: u64, connection: u64, call: u64, block: u64) -> Option<Reply> {
        let (now, id) = (self.now(), id(session));
        let block = Block::For(Duration::from_millis(block));
        match self.sessions.poll(id, USER, 0, connection, block, now) {
            Err(PollRefusal::NoSession) => return Some(Reply::NoSession),
            Err(PollRefusal::NewerConnection) => return Some(Reply::Unblocked),
            Ok(polled) => {
                if polled.displaced.is_some()
                    && let Some((older, call)) = self.polls.remove(&id)
                {
                    self.replies.push((older, call, Reply::Unblocked));
                }
                if polled.was_away {
                    self.calls.pass_over(id, false, None, usize::MAX);
                }
            }
        }
        self.polls.insert(id, (connection, call));
        self.judge_poll(id);
        self.serve();
        None
    }

    fn judge_poll(&mut self, session: SessionId) {
        let now = self.now();
        let Some(reply) = self.sessions.answer(session, now) else {
            return;
        };
        let Some((connection, call)) = self.polls.remove(&session) else {
            return;
        };
        let events = reply.events.iter().map(|event| Event {
            number: event.number,
            owner: number(event.owner.as_owner()),
            what: match event.kind {
                EventKind::Granted { token, .. } => What::Granted(token.number()),
                EventKind::Ended(_) => What::Ended,
                EventKind::Lost { token, .. } | EventKind::Taken { token, .. } => {
                    What::Lost(token.number())
                }
            },
        });
        let reply = Reply::Polled {
            sure_ms: u64::try_from(reply.sure_ms).ok(),
            grants: reply.grants,
            events: events.collect(),
        };
        self.replies.push((connection, call, reply));
    }

    fn acquire(&mut self, owner: u64, session: u64, queue: Option<u64>) -> Reply {
        let (bytes, session) = (owner.to_be_bytes(), id(session));
        let owner = Owner::new(&bytes).expect("an owner");
        if !self.sessions.is_open(session) {
            return Reply::NoSession;
        }
        self.serve();
        let same = (session, Holds::ONE);
        if queue.is_some() && self.calls.repeated(0, KEY, &bytes, same).is_some() {
            return Reply::Place;
        }
        let in_line = self.calls.first_eligible(0, KEY).is_some();
        if let Some(token) = self.granted(owner, in_line) {
            self.join(session, &OwnerBuf::from(owner), token);
            return Reply::Grant(token);
        }
        let Some(ms) = queue else { return Reply::Busy };
        let now = self.now().monotonic;
        let waiter = Waiter {
            owner: OwnerBuf::from(owner),
            lease: Some(lease()),
            holds: Some(Holds::ONE),
            limit: Limit::ONE,
            keep: None,
            session: Some(session),
            names_limit: false,
            client_id: None,
            since: now,
            until: (ms > 0).then(|| now.plus(Duration::from_millis(ms))),
        };
        let call = self.calls.join(0, KEY, waiter, ());
        if self.sessions.is_away(session) {
            self.calls.pass_call_over(call, true);
        }
        Reply::Place
    }

    fn renew(&mut self, owner: u64, session: u64, token: u64) -> Reply {
        let session = id(session);
        if !self.sessions.is_open(session) {
            return Reply::NoSession;
        }
        let end = self.end_of_lease();
        match &mut self.held {
            Some(held) if held.token == token && held.owner == owner.to_be_bytes() => {
                held.end = end;
            }
            _ => return Reply::Gone,
        }
        let owner = owner.to_be_bytes();
        let owner = OwnerBuf::from(Owner::new(&owner).expect("an owner"));
        self.join(session, &owner, token);
        Reply::Grant(token)
    }

    /// `RELEASE … ALL`, or down to no hold.
    fn release(&mut self, owner: u64, token: Option<u64>, session: Option<u64>) -> Reply {
        let bytes = owner.to_be_bytes();
        if let Some(held) = &self.held
            && held.owner == bytes
        {
            if token.is_some_and(|token| token != held.token) {
                return Reply::Gone;
            }
            let (token, now) = (held.token, self.now());
            self.held = None;
            let by = session.map(id);
            self.sessions.released(name(token), by, now);
            return Reply::Released;
        }
        let mut reply = Reply::Gone;
        while token.is_none()
            && let Some(call) = self.calls.first_of(0, KEY, &bytes)
        {
            self.ended(call, "cancelled");
            reply = Reply::Released;
        }
        reply
    }

    fn grants(&mut self, session: u64) -> Reply {
        let session = id(session);
        if !self.sessions.is_open(session) {
            return Reply::NoSession;
        }
        let mut place = GrantPlace::default();
        let mut grants = Vec::new();
        while let Some(grant) = self.sessions.next_grant(session, &mut place) {
            grants.push((number(grant.owner.as_owner()), grant.token.number()));
        }
        Reply::Listed(grants)
    }
}

fn name(token: u64) -> GrantName<'static> {
    GrantName {
        database: 0,
        key: KEY,
        token: core_token(token),
    }
}

fn core_token(token: u64) -> Token {
    Token::new(token).expect("a token is not 0")
}

fn id(number: u64) -> SessionId {
    SessionId::new(number).expect("an id is not 0")
}

fn lease() -> Lease {
    Lease::from_millis(LEASE).expect("a lease")
}

fn number(owner: Owner<'_>) -> u64 {
    u64::from_be_bytes(owner.bytes().try_into().expect("eight bytes"))
}
