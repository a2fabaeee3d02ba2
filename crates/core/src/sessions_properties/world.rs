//! The registry, its model, and the locks as they are.

use std::iter;

use super::model::{Grant, Kind, Model, Name, SECOND};
use crate::sessions::{
    EventKind, GrantName, GrantPlace, LossReason, Now, PollReply, Presence, SessionGrant,
    SessionId, Sessions,
};
use crate::{Deadline, Lease, Monotonic, Owner, OwnerBuf, Token, UnixTime};

pub(super) fn lease(ms: u64) -> Lease {
    Lease::from_millis(ms).unwrap()
}

pub(super) fn token(number: u64) -> Token {
    Token::new(number).unwrap()
}

pub(super) fn id(number: u64) -> SessionId {
    SessionId::new(number).unwrap()
}

pub(super) fn deadline(end: Option<u64>) -> Deadline {
    end.map_or(Deadline::Never, Deadline::At)
}

pub(super) fn database(lock: u8) -> i32 {
    i32::from(lock % 2)
}

pub(super) fn owner(number: u64) -> OwnerBuf {
    OwnerBuf::from(Owner::new(&number.to_be_bytes()).unwrap())
}

/// Calls `f` with the name as the registry takes it.
pub(super) fn with<T>((lock, number): Name, f: impl FnOnce(GrantName<'_>) -> T) -> T {
    f(GrantName {
        database: database(lock),
        key: &[lock],
        token: token(number),
    })
}

pub(super) fn name_of(grant: &SessionGrant) -> Name {
    assert_eq!(grant.lock_id.database, database(grant.lock_id.key[0]));
    (grant.lock_id.key[0], grant.token.number())
}

pub(super) fn grants_of(sessions: &Sessions, session: u64) -> Vec<SessionGrant> {
    let mut place = GrantPlace::default();
    iter::from_fn(|| sessions.next_grant(id(session), &mut place)).collect()
}

/// A grant as its lock has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) name: Name,
    pub(super) lease: u64,
    /// None: never.
    pub(super) end: Option<u64>,
}

/// The promise of a reply to a POLL: these grants do not expire before that time.
#[derive(Debug)]
struct Promise {
    until: u64,
    replied: u64,
    names: Vec<Name>,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) sessions: Sessions,
    pub(super) model: Model,
    /// All that were ever open.
    pub(super) ids: Vec<u64>,
    pub(super) connections: Vec<u64>,
    pub(super) last_client: u64,
    pub(super) last_token: u64,
    pub(super) holds: Vec<Hold>,
    pub(super) writes_blocked: bool,
    /// Found due while detached, with that time.
    pub(super) parked: Vec<(Name, u64)>,
    /// The grants of each session when its POLL arrived.
    pub(super) known: Vec<(u64, Vec<Name>)>,
    promises: Vec<Promise>,
}

impl World {
    pub(super) fn new() -> Self {
        let model = Model {
            now: 1000 * SECOND,
            wall_micros: 5000 * SECOND + 700,
            ..Model::default()
        };
        Self {
            sessions: Sessions::new(),
            model,
            ids: Vec::new(),
            connections: vec![1, 2],
            last_client: 2,
            last_token: 0,
            holds: Vec::new(),
            writes_blocked: false,
            parked: Vec::new(),
            known: Vec::new(),
            promises: Vec::new(),
        }
    }

    pub(super) fn now(&self) -> Now {
        Now {
            monotonic: Monotonic(self.model.now),
            unix: UnixTime::from_micros(self.model.wall_micros),
        }
    }

    /// True when the connection is blocked in a POLL.
    pub(super) fn is_blocked(&self, client: u64) -> bool {
        let mut sessions = self.model.sessions.iter();
        sessions.any(|session| {
            !session.has_ended && session.poll.is_some() && session.client() == client
        })
    }

    /// The grant's lease in its lock, if it stands.
    pub(super) fn hold(&mut self, name: Name) -> Option<&mut Hold> {
        let wall = self.model.wall();
        let mut holds = self.holds.iter_mut();
        holds.find(|hold| hold.name == name && hold.end.is_none_or(|end| end >= wall))
    }

    pub(super) fn end_hold(&mut self, name: Name) {
        self.holds.retain(|hold| hold.name != name);
    }

    pub(super) fn pass(&mut self, micros: u64) {
        self.model.now += micros;
        self.model.wall_micros += micros;
        let wall = self.model.wall();
        for hold in &self.holds {
            let Some(end) = hold.end.filter(|end| *end < wall) else {
                continue;
            };
            // By the monotonic clock.
            let ended = self.model.now - (self.model.wall_micros - end * 1000);
            for promise in &self.promises {
                assert!(
                    promise.until <= ended.max(promise.replied)
                        || !promise.names.contains(&hold.name),
                    "{:?} ended at {ended}: {promise:?}",
                    hold.name
                );
            }
        }
    }

    pub(super) fn stall(&mut self, micros: u64) {
        self.pass(micros);
        self.sessions
            .stalled(std::time::Duration::from_micros(micros));
        self.model.stalls.push((self.model.now, micros));
    }

    /// No promise counts for this grant any more: force, or a call in its owner's name.
    pub(super) fn excuse(&mut self, name: Name) {
        for promise in &mut self.promises {
            promise.names.retain(|of| *of != name);
        }
    }

    pub(super) fn set_wall(&mut self, micros: u64) {
        self.model.wall_micros = micros;
        self.promises.clear();
    }

    /// Compares a reply with the model's, and remembers what it promises.
    pub(super) fn check_reply(
        &mut self,
        of: u64,
        arrived: u64,
        reply: Option<PollReply>,
        model: Option<&(i64, usize, Vec<usize>)>,
    ) {
        let flat = reply.as_ref().map(|reply| {
            let numbers = reply.events.iter();
            let numbers = numbers.map(|event| usize::try_from(event.number).unwrap());
            (reply.sure_ms, reply.grants, numbers.collect())
        });
        assert_eq!(flat.as_ref(), model, "the reply to a POLL");
        let Some(reply) = reply else { return };
        let mut sessions = self.model.sessions.iter_mut();
        let session = sessions.find(|session| session.id == of);
        let events = &mut session.unwrap().events;
        for event in reply.events {
            let index = usize::try_from(event.number - 1).unwrap();
            let kind = match event.kind {
                EventKind::Lost { token, reason } => Kind::Lost(token.number(), reason),
                EventKind::Taken { token, session } => {
                    Kind::Taken(token.number(), session.map(SessionId::number))
                }
                EventKind::Ended(_) | EventKind::Granted { .. } => Kind::Ended,
            };
            if let Kind::Lost(number, _) | Kind::Taken(number, _) = kind {
                assert!(number <= self.last_token);
                assert_eq!(event.owner, owner(event.key[0].into()));
            }
            let event = (event.key[0], kind);
            // The grants that one FLUSHALL ends have no order.
            let same = events[index..].iter().position(|model| *model == event);
            let at = index + same.expect("the model has this event");
            let is_flush = |event: &Kind| {
                matches!(
                    event,
                    Kind::Lost(_, LossReason::Flushed | LossReason::Expired)
                )
            };
            assert!(at == index || events[index..=at].iter().all(|(_, kind)| is_flush(kind)));
            events.swap(index, at);
        }
        let still = self.model.grants_of(of);
        let known = self.known.iter().rev().find(|(session, _)| *session == of);
        let names = known.map(|(_, names)| names.clone()).unwrap_or_default();
        let names = names.into_iter();
        let names = names.filter(|name| {
            // A change by hand that nobody has seen: no promise counts.
            let mut holds = self.holds.iter();
            let hold = holds.find(|hold| hold.name == *name);
            let of = still.iter().find(|grant| grant.name == *name);
            of.is_some_and(|grant| hold.is_none_or(|hold| hold.end == grant.end))
        });
        self.promises.push(Promise {
            replied: self.model.now,
            until: match u64::try_from(reply.sure_ms) {
                Ok(ms) => arrived + ms * 1000,
                Err(_) => u64::MAX,
            },
            names: names.collect(),
        });
    }

    /// Compares everything that can be asked.
    pub(super) fn check(&self) {
        self.sessions.check();
        let (sessions, model, now) = (&self.sessions, &self.model, self.now());
        let live = model.sessions.iter().filter(|session| !session.has_ended);
        let live: Vec<_> = live.collect();
        let counts = sessions.counts();
        assert_eq!(counts.sessions, live.len());
        let detached = live.iter().filter(|session| !session.is_attached);
        assert_eq!(counts.detached, detached.count());
        assert_eq!(counts.grants, model.grants.len());
        assert_eq!(
            (counts.renewals, counts.losses, counts.silent),
            (model.renewals, model.losses, model.silent)
        );
        let mut ids: Vec<_> = live
            .iter()
            .map(|session| (session.opened, session.id))
            .collect();
        ids.sort_unstable();
        let ids: Vec<_> = ids.into_iter().map(|(_, id)| id).collect();
        let list = sessions.list(usize::MAX, now);
        let listed: Vec<_> = list.iter().map(|info| info.id.number()).collect();
        assert_eq!(listed, ids);
        for session in live {
            let info = list.iter().find(|info| info.id == id(session.id)).unwrap();
            let client = if session.is_attached {
                session.client()
            } else {
                0
            };
            assert_eq!(info.client_id, client);
            assert_eq!(
                sessions.client_of(info.id),
                Some(client).filter(|client| *client > 0)
            );
            let idle = match session.poll {
                Some(_) => 0,
                None => model.alive_since(session.heard),
            };
            assert_eq!(info.idle.as_micros(), u128::from(idle));
            assert_eq!(info.age.as_micros(), u128::from(model.now - session.opened));
            assert_eq!(
                (info.grants, info.events),
                (model.grants_of(session.id).len(), session.pending())
            );
            assert_eq!(
                sessions.presence(info.id) == Presence::Away,
                session.is_away
            );
        }
        for number in &self.ids {
            let mut model: Vec<_> = model.grants_of(*number).iter().map(Grant::view).collect();
            let grants = grants_of(sessions, *number);
            let view = |grant: &SessionGrant| (name_of(grant), grant.lease, grant.deadline);
            let mut grants: Vec<_> = grants.iter().map(view).collect();
            model.sort_unstable_by_key(|grant| grant.0);
            grants.sort_unstable_by_key(|grant| grant.0);
            assert_eq!(grants, model);
        }
        for hold in &self.holds {
            let of = model.grants.iter().find(|grant| grant.name == hold.name);
            let of = of.map(|grant| id(grant.session));
            assert_eq!(with(hold.name, |name| sessions.session_of(name)), of);
        }
        let ends = model.grants.iter().filter_map(|grant| grant.end);
        assert_eq!(sessions.next_end_at(), ends.min());
        let attached = |grant: &&Grant| {
            let mut of = model.sessions.iter();
            of.any(|session| session.id == grant.session && session.is_attached)
        };
        let due = model.grants.iter().filter(attached).map(|grant| grant.due);
        assert_eq!(sessions.next_due_at(), due.min().map(Monotonic));
        let polls = model.polls();
        assert_eq!(sessions.next_poll(now).is_some(), !polls.is_empty());
        assert_eq!(
            sessions
                .next_poll_at()
                .is_some_and(|at| at <= now.monotonic),
            !polls.is_empty()
        );
        let (silent, away) = model.timeouts();
        let has_timeout = !(silent.is_empty() && away.is_empty());
        assert_eq!(
            sessions
                .next_timeout_at()
                .is_some_and(|at| at <= now.monotonic),
            has_timeout
        );
    }
}

impl Grant {
    fn view(&self) -> (Name, Lease, Deadline) {
        (self.name, lease(self.lease), deadline(self.end))
    }
}
