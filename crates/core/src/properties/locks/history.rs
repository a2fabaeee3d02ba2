//! Histories of locks: the start of a server, and operations with numbers close to the state that it is in.

use crate::Lease;
use crate::model::lock::{
    Amount, Call, Event, Holder, Key, MAX_HOLDS, MICROS, NEVER, NONE, Server, Settings, TOKENS_END,
    Verb,
};
use crate::properties::choices::Choices;

pub(crate) const KEYS: [Key; 4] = [(0, b'a'), (0, b'b'), (1, b'a'), (1, b'b')];
pub(crate) const OWNERS: usize = 40;
const MAX_TOKEN: u64 = TOKENS_END - 1;
/// A time in 2026.
const TODAY: u64 = 1_795_000_000_000_000;
const HOUR: i64 = 3_600_000_000;

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Call(Call),
    Event(Event),
}

/// A server without locks.
pub(crate) fn start(choices: &mut Choices<'_>) -> Server {
    let now = match choices.number(0..=15) {
        0..=13 => TODAY,
        14 => 0,
        _ => TOKENS_END - 5,
    };
    let seen = match choices.number(0..=15) {
        0..=6 => 0,
        7..=14 => choices.near(now, -HOUR..=HOUR),
        _ => choices.number(MAX_TOKEN - 4..=MAX_TOKEN),
    };
    let settings = Settings {
        default_lease: lease(choices),
        max_lead: choices.one_of(&[5_000, 0, 86_400_000]),
        max_holders: choices.one_of(&[1000, 1000, 1000, 20, 3]),
    };
    Server::new(now, seen.min(MAX_TOKEN), settings)
}

/// The next step; `None` if the choice does not fit the state.
pub(crate) fn operation(choices: &mut Choices<'_>, server: &Server) -> Option<Operation> {
    Some(match choices.number(0..=63) {
        0..=53 => Operation::Call(call(choices, server)),
        _ => Operation::Event(event(choices, server)?),
    })
}

fn event(choices: &mut Choices<'_>, server: &Server) -> Option<Event> {
    let key = choices.one_of(&KEYS);
    let millis = server.millis();
    let end_of_one = |choices: &mut Choices<'_>| Some(nth_holder(choices, server, key)?.end);
    let later = |micros: u64| Event::Clock(server.now.saturating_add(micros));
    Some(match choices.number(0..=63) {
        0..=15 => later(choices.number(0..=3_000)),
        16..=18 => later(choices.number(0..=40_000_000)),
        19 => Event::Clock(choices.near(server.now, -HOUR..=HOUR)),
        20 => Event::Clock(choices.one_of(&[TODAY, 0, MAX_TOKEN, 2 * TOKENS_END])),
        // Just before or after the end of a lease, or of the key.
        21..=26 => {
            let end = if choices.chance(4) {
                server.locks.get(&key)?.expiry
            } else {
                end_of_one(choices)?
            };
            Event::Clock(choices.near(end, -1..=1).saturating_mul(MICROS))
        }
        27..=34 => {
            let end = end_of_one(choices)?;
            let by = choices.one_of(&[500, 500, 500, 1]);
            let at = choices.near(end, -by..=by);
            let ms = at
                .checked_sub(millis)
                .filter(|ms| (1..NEVER / 2).contains(ms));
            Event::Pexpire(key, ms?)
        }
        35..=36 => Event::Pexpire(key, lease(choices)),
        37..=40 => Event::Persist(key),
        41 => Event::Del(key),
        42..=44 => Event::Seen(match choices.number(0..=31) {
            0..=20 => token(choices, server, key, None),
            21..=30 => choices.near(server.now, -HOUR..=HOUR).clamp(1, MAX_TOKEN),
            _ => choices.number(MAX_TOKEN - 4..=MAX_TOKEN),
        }),
        45..=48 => Event::MaxHolders(choices.one_of(&[1000, 1000, 1000, 20, 8, 5, 3, 1])),
        _ => Event::Restore(key, restored(choices, server, key)?),
    })
}

/// The holders of a lock that comes from elsewhere, with tokens above all seen here.
pub(crate) fn restored(
    choices: &mut Choices<'_>,
    server: &Server,
    key: Key,
) -> Option<Vec<Holder>> {
    let count = match choices.number(0..=15) {
        _ if key == KEYS[0] => 1,
        0..=5 => 1,
        6..=10 => choices.number(2..=5),
        11..=14 => choices.one_of(&[16, 16, 16, 16, 9, 9, 9, 6]),
        _ => choices.number(24..=OWNERS as u64 - 1),
    };
    let first = choices.index(OWNERS);
    let mut token = server.seen + choices.maybe(2, |c| c.number(0..=5_000_000)).unwrap_or(0);
    let holders: Vec<_> = (0..count)
        .map(|number| {
            token += choices.number(1..=3);
            let limit = match choices.number(0..=7) {
                0..=3 if count == 1 => 1,
                0..=6 => NONE,
                _ => count + choices.number(0..=3),
            };
            let end = server.millis() + choices.number(0..=40_000);
            Holder {
                // 7 and the number of owners have no common divisor.
                owner: (first + 7 * usize::try_from(number).expect("few")) % OWNERS,
                grant: 0,
                token,
                holds: match choices.number(0..=7) {
                    0..=4 => 1,
                    5..=6 => choices.number(2..=4),
                    _ => choices.number(MAX_HOLDS - 2..=MAX_HOLDS),
                },
                lease: lease(choices),
                limit,
                end: if limit == 1 && choices.chance(2) {
                    NEVER
                } else {
                    end
                },
            }
        })
        .collect();
    (token <= MAX_TOKEN).then_some(holders)
}

fn nth_holder(choices: &mut Choices<'_>, server: &Server, key: Key) -> Option<Holder> {
    let holders = server.holders(key);
    (!holders.is_empty()).then(|| choices.one_of(&holders))
}

fn call(choices: &mut Choices<'_>, server: &Server) -> Call {
    let key = choices.one_of(&KEYS);
    let owner = match choices.number(0..=15) {
        0..=3 => choices.index(6),
        4..=7 => choices.index(OWNERS),
        _ => nth_holder(choices, server, key).map_or(0, |holder| holder.owner),
    };
    let own = server.holder(key, owner);
    let holds = own.map_or(0, |holder| holder.holds);
    let mut bound = choices.maybe(4, |choices| token(choices, server, key, own));
    let this_grant = own.map_or(server.seen.max(1), |holder| holder.token);
    let verb = match choices.number(0..=31) {
        0..=14 => Verb::Acquire {
            px: choices.maybe(7, lease),
            limit: limit(choices, server, key),
            holds: choices.maybe(7, |c| c.near(holds, -2..=2).clamp(1, MAX_HOLDS)),
            in_line: choices.chance(2),
        },
        15..=16 => Verb::Release(Amount::One),
        17..=18 => {
            let down_to = choices.near(holds, -3..=1).min(MAX_HOLDS);
            Verb::Release(Amount::DownTo(down_to))
        }
        19..=20 => Verb::Release(Amount::All),
        21..=24 => Verb::Renew {
            px: choices.maybe(7, lease),
            limit: choices.maybe(10, |choices| limit(choices, server, key)),
            raise: None,
        },
        25..=29 => {
            // `RAISE` comes only with `TOKEN`, and never with a limit.
            bound = Some(bound.unwrap_or(this_grant));
            Verb::Renew {
                px: choices.maybe(7, lease),
                limit: None,
                raise: Some(token(choices, server, key, own)),
            }
        }
        _ => {
            bound = Some(bound.unwrap_or(this_grant));
            Verb::Fence
        }
    };
    let token = bound;
    Call {
        key,
        owner,
        token,
        verb,
    }
}

fn token(choices: &mut Choices<'_>, server: &Server, key: Key, own: Option<Holder>) -> u64 {
    let own = own.map_or(server.seen, |holder| holder.token);
    let furthest = server.now.saturating_add(server.settings.max_lead * MICROS);
    let token = match choices.number(0..=15) {
        0..=6 => own,
        7..=9 => choices.near(own, -2..=3),
        10 => nth_holder(choices, server, key).map_or(1, |holder| holder.token),
        11..=12 => choices.near(server.seen, -1..=3),
        13..=14 => choices.near(furthest, -1..=1),
        _ => choices.one_of(&[1, MAX_TOKEN]),
    };
    token.clamp(1, MAX_TOKEN)
}

/// Most calls for the first key want it exclusively.
fn limit(choices: &mut Choices<'_>, server: &Server, key: Key) -> u64 {
    match choices.number(0..=15) {
        0..=9 if key == KEYS[0] => 1,
        0..=6 => NONE,
        7..=12 => choices
            .near(server.holders(key).len() as u64, -1..=3)
            .max(1),
        _ => 1,
    }
}

pub(crate) fn lease(choices: &mut Choices<'_>) -> u64 {
    match choices.number(0..=15) {
        0..=3 => 30_000,
        4..=13 => choices.number(1..=60_000),
        14 => 1,
        _ => Lease::MAX.millis(),
    }
}
