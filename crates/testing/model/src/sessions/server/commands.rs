//! The commands.

use std::time::Duration;

use redis_lock_core::sessions::{
    Block, EventKind, GrantPlace, Opening, PollRefusal, Presence, SessionId, SessionTimeout,
};
use redis_lock_core::{Holds, Limit, Owner, OwnerBuf, Waiter};

use super::super::{Asks, Event, Move, Release, Reply, SESSION, What};
use super::{KEY, Server, USER, core_lease, id, name, number};

impl Server {
    pub(super) fn open(&mut self, client_id: u64) -> Reply {
        self.last_session += 1;
        let opening = Opening {
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

    pub(super) fn poll(
        &mut self,
        session: u64,
        connection: u64,
        call: u64,
        block: u64,
    ) -> Option<Reply> {
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

    pub(super) fn judge_poll(&mut self, session: SessionId) {
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
                EventKind::Lost { token, .. } => What::Lost(token.number()),
                EventKind::Taken { token, .. } => What::Taken(token.number()),
            },
        });
        let reply = Reply::Polled {
            sure_ms: u64::try_from(reply.sure_ms).ok(),
            grants: reply.grants,
            events: events.collect(),
        };
        self.replies.push((connection, call, reply));
    }

    pub(super) fn acquire(&mut self, asks: Asks) -> Reply {
        let (bytes, session) = (asks.owner.to_be_bytes(), id(asks.session));
        let (queue, lease) = (asks.queue, core_lease(asks.lease));
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
        if let Some(token) = self.granted(owner, lease, in_line) {
            self.join(session, &OwnerBuf::from(owner), token, lease);
            return Reply::Grant(token);
        }
        let Some(ms) = queue else { return Reply::Busy };
        let now = self.now().monotonic;
        let waiter = Waiter {
            owner: OwnerBuf::from(owner),
            lease: Some(lease),
            holds: Some(Holds::ONE),
            limit: Limit::ONE,
            session: Some(session),
            names_limit: false,
            client_id: None,
            since: now,
            until: (ms > 0).then(|| now.plus(Duration::from_millis(ms))),
        };
        let call = self.calls.join(0, KEY, waiter, ());
        if self.sessions.presence(session) == Presence::Away {
            self.calls.pass_call_over(call, true);
        }
        Reply::Place
    }

    pub(super) fn renew(&mut self, moved: Move) -> Reply {
        let (session, token) = (moved.session.map(id), moved.token);
        if session.is_some_and(|it| !self.sessions.is_open(it)) {
            return Reply::NoSession;
        }
        let bytes = moved.owner.to_be_bytes();
        let lease = match &self.held {
            Some(held) if held.token == token && held.owner == bytes => held.lease,
            _ => return Reply::Gone,
        };
        let end = self.end_of(lease);
        self.held.as_mut().expect("a holder").end = end;
        match session {
            None => self.sessions.take_out(name(token)),
            Some(session) => {
                let owner = OwnerBuf::from(Owner::new(&bytes).expect("an owner"));
                self.join(session, &owner, token, core_lease(lease));
            }
        }
        Reply::Grant(token)
    }

    /// `RELEASE … ALL`, or down to no hold.
    pub(super) fn release(&mut self, (owner, token, session): Release) -> Reply {
        if session.is_some() && token.is_none() {
            return Reply::Refused;
        }
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

    pub(super) fn grants(&mut self, session: u64) -> Reply {
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
