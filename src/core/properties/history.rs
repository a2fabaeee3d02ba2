//! Random histories: where a server starts, and what is asked of it.
//!
//! A step names what it asks for by where it lies (this grant's token, one hold more than there
//! are), not by number, so that it often comes close to the edge of a rule.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::model::{
    Amount, Call, Event, Lock, MICROS, MOST_HOLDS, Server, Settings, TOKENS_END, Verb,
};
use super::world::{OWNERS, World};
use crate::core::Lease;

const KEYS: usize = 3;
const HIGHEST_TOKEN: u64 = TOKENS_END - 1;
/// An afternoon in 2026.
const TODAY: u64 = 1_795_000_000_000_000;
const HOUR: i64 = 3_600_000_000;

#[derive(Clone, Debug)]
pub(super) struct History {
    pub(super) start: Server,
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Call {
        key: usize,
        /// None: whoever holds the lock.
        owner: Option<usize>,
        token: Option<NearToken>,
        verb: NearVerb,
    },
    /// The wall clock goes on, or is set back.
    Clock(i64),
    /// The wall clock comes to so many milliseconds from the deadline of a key.
    Deadline(usize, i64),
    Seen(NearToken),
    Event(Event),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum NearToken {
    /// The current grant's, and so many above it.
    Grant(i64),
    /// The last seen, and so many above it.
    Seen(i64),
    /// As far as a raise may go ahead of time, and so many above it.
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
pub(super) enum Deed {
    Call(Call),
    Event(Event),
}

impl Step {
    /// What the step comes to in this world.
    pub(super) fn at(&self, world: &World) -> Deed {
        match *self {
            Self::Call {
                key,
                owner,
                token,
                verb,
            } => Deed::Call(call(world, key, owner, token, verb)),
            Self::Clock(by) => Deed::Event(Event::Clock(world.now().saturating_add_signed(by))),
            Self::Deadline(key, by) => {
                let deadline = world.lock(key).and_then(|lock| lock.deadline);
                let moment = deadline.map_or(world.now(), |deadline| {
                    deadline.saturating_add_signed(by) * MICROS
                });
                Deed::Event(Event::Clock(moment))
            }
            Self::Seen(token) => Deed::Event(Event::Seen(token.at(world, 0))),
            Self::Event(event) => Deed::Event(event),
        }
    }
}

fn call(
    world: &World,
    key: usize,
    owner: Option<usize>,
    token: Option<NearToken>,
    verb: NearVerb,
) -> Call {
    let lock = world.lock(key);
    let holds = lock.map_or(0, |lock| lock.holds);
    let near_holds = |by, least: u64| holds.saturating_add_signed(by).clamp(least, MOST_HOLDS);
    let owner = owner.unwrap_or_else(|| lock.map_or(0, |lock| lock.owner));
    let mut token = token.map(|token| token.at(world, key));
    let this_grant = NearToken::Grant(0).at(world, key);
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
                raise: raise.map(|raise| raise.at(world, key)),
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
    fn at(self, world: &World, key: usize) -> u64 {
        let (base, above) = match self {
            Self::Grant(above) => (
                world.lock(key).map_or(world.seen(), |lock| lock.token),
                above,
            ),
            Self::Seen(above) => (world.seen(), above),
            Self::Lead(above) => (world.now() + world.max_lead() * MICROS, above),
            Self::Exactly(number) => (number, 0),
        };
        base.saturating_add_signed(above).clamp(1, HIGHEST_TOKEN)
    }
}

/// Any history.
pub(super) fn histories() -> impl Strategy<Value = History> {
    (starts(), vec(steps(), 1..60)).prop_map(|(start, steps)| History { start, steps })
}

fn starts() -> impl Strategy<Value = Server> {
    let nows = prop_oneof![8 => Just(TODAY), 1 => Just(0), 1 => Just(TOKENS_END - 5)];
    let clocks = nows.prop_flat_map(|now| {
        let near = (-HOUR..HOUR).prop_map(move |by| now.saturating_add_signed(by));
        let seen = prop_oneof![3 => Just(0), 4 => near, 1 => HIGHEST_TOKEN - 4..=HIGHEST_TOKEN];
        (Just(now), seen)
    });
    let settings = (
        leases(),
        prop_oneof![Just(0), Just(5_000), Just(86_400_000)],
    )
        .prop_map(|(default_lease, max_lead)| Settings {
            default_lease,
            max_lead,
        });
    let locks = vec(option::of(first_locks()), KEYS);
    (clocks, settings, locks).prop_map(|((now, seen), settings, locks)| {
        let mut server = Server {
            locks,
            seen: seen.min(HIGHEST_TOKEN),
            now,
            settings,
        };
        for lock in server.locks.iter_mut().flatten() {
            lock.token = server.seen.saturating_sub(lock.token).max(1);
            lock.deadline = lock.deadline.map(|left| now / MICROS + left);
            server.seen = server.seen.max(lock.token);
        }
        server
    })
}

/// A lock to start with: its token is how far it lies below the last seen, its deadline how long it
/// has left.
fn first_locks() -> impl Strategy<Value = Lock> {
    let holds = prop_oneof![
        2 => 1..4_u64,
        1 => MOST_HOLDS - 2..=MOST_HOLDS,
    ];
    (
        0..OWNERS.len(),
        0..5_000_000_u64,
        holds,
        leases(),
        option::weighted(0.8, 0..40_000_u64),
    )
        .prop_map(|(owner, token, holds, lease, deadline)| Lock {
            owner,
            token,
            holds,
            lease,
            deadline,
        })
}

fn leases() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => 1..60_000_u64,
        1 => Just(1),
        1 => Just(Lease::LONGEST.millis()),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let calls = (
        0..KEYS,
        option::weighted(0.3, 0..OWNERS.len()),
        option::weighted(0.4, tokens()),
        verbs(),
    )
        .prop_map(|(key, owner, token, verb)| Step::Call {
            key,
            owner,
            token,
            verb,
        });
    let clocks = prop_oneof![
        8 => (0..3_000_i64).prop_map(Step::Clock),
        2 => (0..40_000_000_i64).prop_map(Step::Clock),
        4 => (0..KEYS, -1..=1_i64).prop_map(|(key, by)| Step::Deadline(key, by)),
        2 => (-HOUR..HOUR).prop_map(Step::Clock),
        1 => prop_oneof![
            4 => Just(TODAY),
            1 => Just(0),
            1 => Just(HIGHEST_TOKEN),
            1 => Just(2 * TOKENS_END),
        ]
        .prop_map(|now| Step::Event(Event::Clock(now))),
    ];
    let administrators = prop_oneof![
        2 => (0..KEYS, leases()).prop_map(|(key, ms)| Event::Pexpire(key, ms)),
        2 => (0..KEYS).prop_map(Event::Persist),
        1 => (0..KEYS).prop_map(Event::Del),
    ]
    .prop_map(Step::Event);
    let seens = prop_oneof![
        9 => (-2..=3_i64).prop_map(NearToken::Seen),
        3 => (-HOUR..HOUR).prop_map(NearToken::Lead),
        1 => (HIGHEST_TOKEN - 4..=HIGHEST_TOKEN).prop_map(NearToken::Exactly),
    ]
    .prop_map(Step::Seen);
    prop_oneof![20 => calls, 5 => clocks, 2 => administrators, 1 => seens]
}

fn tokens() -> impl Strategy<Value = NearToken> {
    prop_oneof![
        8 => Just(NearToken::Grant(0)),
        4 => (-2..=2_i64).prop_map(NearToken::Grant),
        2 => (-2..=2_i64).prop_map(NearToken::Seen),
        1 => prop_oneof![Just(1), Just(HIGHEST_TOKEN)].prop_map(NearToken::Exactly),
    ]
}

fn raises() -> impl Strategy<Value = NearToken> {
    prop_oneof![
        6 => (-1..=3_i64).prop_map(NearToken::Grant),
        3 => (-1..=2_i64).prop_map(NearToken::Seen),
        3 => (-1..=1_i64).prop_map(NearToken::Lead),
        1 => prop_oneof![Just(1), Just(HIGHEST_TOKEN)].prop_map(NearToken::Exactly),
    ]
}

fn verbs() -> impl Strategy<Value = NearVerb> {
    let lease = || option::weighted(0.4, leases());
    prop_oneof![
        10 => (lease(), option::of(-2..=2_i64)).prop_map(|(px, by)| NearVerb::Acquire(px, by)),
        4 => option::of(-3..=1_i64).prop_map(NearVerb::Release),
        1 => Just(NearVerb::ReleaseAll),
        6 => (lease(), option::of(raises())).prop_map(|(px, raise)| NearVerb::Renew(px, raise)),
        1 => Just(NearVerb::Fence),
    ]
}
