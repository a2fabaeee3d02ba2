//! A server with one lock, its line and its sessions, by the module's own core.

mod commands;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redis_lock_core::sessions::{
    EventKind, GrantName, LossReason, Now, SessionId, Sessions, Timeout,
};
use redis_lock_core::{
    Acquire, Calls, Deadline, Grant, Holder, Holders, Holds, Lease, Limit, Monotonic, Owner,
    OwnerBuf, Rules, Token, TokenClock, UnixTime, acquire, next_in_line,
};

use super::{Reply, Request};

const KEY: &[u8] = b"lock";
const USER: &[u8] = b"user";
/// The wall clock at the start, so that tokens are not 0.
const START_MS: u64 = 1_000_000;

/// The holders of the lock.
pub(super) struct Held {
    owner: [u8; 8],
    pub(super) token: u64,
    lease: u64,
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
            Request::Acquire(asks) => self.acquire(asks),
            Request::Renew(moved) => self.renew(moved),
            Request::Release(release) => self.release(release),
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

    /// The work of the module's timer.
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
        while let Some((end, id)) = self.calls.next_wait_end()
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

    fn end_of(&self, lease: u64) -> u64 {
        START_MS + self.time + lease
    }

    fn lost(&mut self, token: u64, reason: LossReason) {
        let now = self.now();
        self.sessions.lost(name(token), reason, now);
    }

    /// Renews what is due, and removes what has ended.
    fn refresh(&mut self) {
        let now = self.now();
        while let Some(grant) = self.sessions.next_due(now) {
            let end = self.end_of(grant.lease.millis());
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
        loop {
            let holders = Self::holders(self.held.as_ref());
            let next = next_in_line(&mut self.calls, (0, KEY), holders.as_ref(), None, 1);
            let Some((id, waiter)) = next.and_then(|id| Some((id, &self.calls.get(id)?.waiter)))
            else {
                return;
            };
            let (owner, session) = (waiter.owner.clone(), waiter.session.expect("a session"));
            let lease = waiter.lease.expect("a lease");
            let Some(token) = self.granted(owner.as_owner(), lease, false) else {
                self.ended(id, "refused");
                continue;
            };
            self.calls.grant_queued(id, core_token(token));
            self.join(session, &owner, token, lease);
            let kind = EventKind::Granted {
                token: core_token(token),
                holds: 1,
                lease,
                limit: 1,
            };
            self.sessions.report(session, &Arc::from(KEY), &owner, kind);
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

    fn holders(held: Option<&Held>) -> Option<Holders<'_>> {
        let held = held?;
        Some(Holders::Exclusive(Holder {
            owner: Owner::new(&held.owner)?,
            grant: Grant {
                token: core_token(held.token),
                holds: Holds::ONE,
                lease: core_lease(held.lease),
            },
            limit: Limit::ONE,
            end: Deadline::At(held.end),
        }))
    }

    /// The rules judge an acquire with `HOLDS 1`; the token, if it is granted.
    fn granted(&mut self, owner: Owner<'_>, lease: Lease, in_line: bool) -> Option<u64> {
        const RULES: Rules = Rules {
            default_lease: Lease::MAX,
            max_token_lead_ms: 0,
            max_holders: 1,
        };
        let call = Acquire {
            owner,
            limit: Limit::ONE,
            lease: Some(lease),
            holds: Some(Holds::ONE),
            token: None,
        };
        let (mut clock, unix) = (self.clock, self.now().unix);
        let holders = Self::holders(self.held.as_ref());
        let judged = acquire(holders.as_ref(), &call, in_line, &RULES, unix, &mut clock);
        let token = judged.ok()??.holder.grant.token.number();
        self.clock = clock;
        self.held = Some(Held {
            owner: owner.bytes().try_into().expect("eight bytes"),
            token,
            lease: lease.millis(),
            end: self.end_of(lease.millis()),
        });
        Some(token)
    }

    fn join(&mut self, session: SessionId, owner: &OwnerBuf, token: u64, lease: Lease) {
        let (now, end) = (self.now(), Deadline::At(self.end_of(lease.millis())));
        self.sessions
            .join(session, name(token), owner, lease, end, now);
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

fn core_lease(ms: u64) -> Lease {
    Lease::from_millis(ms).expect("a lease")
}

fn number(owner: Owner<'_>) -> u64 {
    u64::from_be_bytes(owner.bytes().try_into().expect("eight bytes"))
}
