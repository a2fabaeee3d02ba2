//! Histories: the state that a server starts with, and the steps that follow.
//!
//! A step has its numbers relative to the state (the current grant's token, one hold more than there
//! are), so that it is often close to the limit of a rule.

use super::model::{Amount, Call, Event, MAX_HOLDS, MICROS, Server, TOKENS_END, Verb};
use super::system::System;

pub(super) const KEYS: usize = 3;
pub(super) const MAX_TOKEN: u64 = TOKENS_END - 1;
/// A time in 2026.
pub(super) const TODAY: u64 = 1_795_000_000_000_000;
pub(super) const HOUR: i64 = 3_600_000_000;

/// The start and the steps.
#[derive(Clone, Debug)]
pub(super) struct History {
    pub(super) start: Server,
    pub(super) steps: Vec<Step>,
}

impl History {
    /// A history that starts with these locks. A lock's token is given as the distance below the last
    /// one seen, its deadline as the time left.
    pub(super) fn new(mut start: Server, steps: Vec<Step>) -> Self {
        start.seen = start.seen.min(MAX_TOKEN);
        for lock in start.locks.iter_mut().flatten() {
            lock.token = start.seen.saturating_sub(lock.token).max(1);
            lock.deadline = lock.deadline.map(|left| start.now / MICROS + left);
            start.seen = start.seen.max(lock.token);
        }
        Self { start, steps }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Call {
        key: usize,
        /// `None`: the holder of the lock.
        owner: Option<usize>,
        token: Option<NearToken>,
        verb: NearVerb,
    },
    /// The wall clock moves by so many microseconds, forward or back.
    Clock(i64),
    /// The wall clock moves to the deadline of a key plus so many milliseconds.
    Deadline(usize, i64),
    Seen(NearToken),
    Event(Event),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum NearToken {
    /// The current grant's plus so many.
    Grant(i64),
    /// The last seen plus so many.
    Seen(i64),
    /// The highest that a raise may reach plus so many.
    Lead(i64),
    Exactly(u64),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum NearVerb {
    Acquire(Option<u64>, Option<i64>),
    Release(Option<i64>),
    ReleaseAll,
    Renew(Option<u64>, Option<NearToken>),
    Fence,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    Call(Call),
    Event(Event),
}

impl Step {
    /// The operation that this step is in this state.
    pub(super) fn at(&self, system: &System) -> Operation {
        match *self {
            Self::Call {
                key,
                owner,
                token,
                verb,
            } => Operation::Call(call(system, key, owner, token, verb)),
            Self::Clock(by) => {
                Operation::Event(Event::Clock(system.now().saturating_add_signed(by)))
            }
            Self::Deadline(key, by) => {
                let deadline = system.lock(key).and_then(|lock| lock.deadline);
                let now = deadline.map_or(system.now(), |deadline| {
                    deadline.saturating_add_signed(by) * MICROS
                });
                Operation::Event(Event::Clock(now))
            }
            Self::Seen(token) => Operation::Event(Event::Seen(token.at(system, 0))),
            Self::Event(event) => Operation::Event(event),
        }
    }
}

fn call(
    system: &System,
    key: usize,
    owner: Option<usize>,
    token: Option<NearToken>,
    verb: NearVerb,
) -> Call {
    let lock = system.lock(key);
    let holds = lock.map_or(0, |lock| lock.holds);
    let near_holds = |by, min: u64| holds.saturating_add_signed(by).clamp(min, MAX_HOLDS);
    let owner = owner.unwrap_or_else(|| lock.map_or(0, |lock| lock.owner));
    let mut token = token.map(|token| token.at(system, key));
    let this_grant = NearToken::Grant(0).at(system, key);
    let verb = match verb {
        NearVerb::Acquire(px, by) => Verb::Acquire {
            px,
            holds: by.map(|by| near_holds(by, 1)),
        },
        NearVerb::Release(None) => Verb::Release(Amount::One),
        NearVerb::Release(Some(by)) => Verb::Release(Amount::Holds(near_holds(by, 0))),
        NearVerb::ReleaseAll => Verb::Release(Amount::All),
        NearVerb::Renew(px, raise) => {
            if raise.is_some() {
                // RAISE comes only together with TOKEN.
                token = token.or(Some(this_grant));
            }
            Verb::Renew {
                px,
                raise: raise.map(|raise| raise.at(system, key)),
            }
        }
        NearVerb::Fence => {
            token = token.or(Some(this_grant));
            Verb::Fence
        }
    };
    Call {
        key,
        owner,
        token,
        verb,
    }
}

impl NearToken {
    fn at(self, system: &System, key: usize) -> u64 {
        let (base, above) = match self {
            Self::Grant(above) => (
                system.lock(key).map_or(system.seen(), |lock| lock.token),
                above,
            ),
            Self::Seen(above) => (system.seen(), above),
            Self::Lead(above) => (system.now() + system.max_lead() * MICROS, above),
            Self::Exactly(number) => (number, 0),
        };
        base.saturating_add_signed(above).clamp(1, MAX_TOKEN)
    }
}
