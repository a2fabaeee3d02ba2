//! Histories of waiting calls: operations chosen in the state that the model is in.

use super::SideBySide;
use crate::model::call::{Operation, Stage};
use crate::model::lock::{Amount, Call, Event, Key, MICROS, NONE, Verb};
use crate::model::queue::Queue;
use crate::properties::choices::Choices;
use crate::properties::locks::history::{KEYS, restored};

/// A time in 2026.
pub(super) const TODAY: u64 = 1_795_000_000_000_000;
/// So few owners that they meet.
const OWNERS: usize = 4;

/// What happens next; none where the choice does not fit the state.
pub(super) fn operation(choices: &mut Choices<'_>, model: &Queue) -> Option<Operation> {
    let kind = choices.number(0..=63);
    let nth =
        |choices: &mut Choices<'_>, stage: fn(Stage) -> bool, operation: fn(usize) -> Operation| {
            let calls = model.calls.iter().filter(|call| stage(call.stage));
            let numbers: Vec<_> = calls.map(|call| call.number).collect();
            (!numbers.is_empty()).then(|| operation(choices.one_of(&numbers)))
        };
    let is_waiting = |stage| stage == Stage::Waiting;
    let is_granted = |stage| matches!(stage, Stage::Granted(_));
    let is_pending = |stage| matches!(stage, Stage::Granted(_) | Stage::Written(_));
    let is_sent = |stage| matches!(stage, Stage::Sent(_));
    Some(match kind {
        0..=33 => {
            let call = call(choices, model);
            let is_acquire = matches!(call.verb, Verb::Acquire { .. });
            let block = match choices.number(0..=9) {
                0..=1 => None,
                2..=4 => Some(0),
                _ => Some(choices.number(1..=60)),
            };
            Operation::Call(call, block.filter(|_| is_acquire))
        }
        34..=35 => nth(choices, is_waiting, Operation::Disconnect)?,
        36..=40 => nth(choices, is_granted, Operation::Write)?,
        41..=42 => Operation::Send,
        43..=45 => nth(choices, is_pending, Operation::Abandon)?,
        46 => nth(choices, is_sent, Operation::Confirm)?,
        47..=48 => nth(choices, is_sent, Operation::Unsent)?,
        49..=52 => Operation::Pass(choices.number(1..=15)),
        53..=56 => Operation::Event(event(choices, model)?),
        57 => Operation::Flush(choices.one_of(&[0, 1])),
        58 => Operation::Swap,
        _ => Operation::Tick,
    })
}

fn key(choices: &mut Choices<'_>) -> Key {
    KEYS[choices.index(2 * KEYS.len()).saturating_sub(KEYS.len())]
}

fn call(choices: &mut Choices<'_>, model: &Queue) -> Call {
    let key = key(choices);
    let holders = model.locks.holders(key);
    let owner = if choices.chance(6) && !holders.is_empty() {
        choices.one_of(&holders).owner
    } else {
        choices.index(OWNERS)
    };
    let own = holders.iter().find(|holder| holder.owner == owner);
    let px = choices.maybe(2, |choices| choices.number(1..=40));
    // The keys of the second name are mostly shared.
    let is_shared = key.1 == b'b';
    let limit = match choices.number(0..=7) {
        0..=4 if is_shared => NONE,
        5..=6 if is_shared => choices.number(1..=3),
        0 => NONE,
        1 => 2,
        _ => 1,
    };
    let (mut token, mut raise) = (None, None);
    let verb = match choices.number(0..=31) {
        0..=20 => Verb::Acquire {
            px,
            limit,
            holds: choices.one_of(&[None, None, None, Some(1), Some(1), Some(2), Some(3)]),
            in_line: false,
        },
        21..=24 => Verb::Release(Amount::One),
        25..=27 => Verb::Release(Amount::All),
        28..=29 => Verb::Renew {
            px,
            limit: Some(limit),
            raise,
        },
        _ => {
            token = own.map(|own| own.token);
            raise = token.map(|token| token + choices.number(1..=10));
            Verb::Renew {
                px,
                limit: None,
                raise,
            }
        }
    };
    Call {
        key,
        owner,
        token,
        verb,
    }
}

fn event(choices: &mut Choices<'_>, model: &Queue) -> Option<Event> {
    let key = key(choices);
    let locks = &model.locks;
    Some(match choices.number(0..=15) {
        0..=4 => Event::Del(key),
        5..=6 => Event::Pexpire(key, choices.number(1..=30)),
        7 => Event::Persist(key),
        8..=9 => Event::MaxHolders(choices.one_of(&[1_000, 1_000, 1, 2, 3])),
        // The wall clock is stepped, and no wait ends for it.
        10..=11 => Event::Clock(choices.near(locks.now / MICROS, -25..=25) * MICROS),
        _ => Event::Restore(key, restored(choices, locks, key)?),
    })
}

/// The operations that end every call, in several ways and orders.
pub(super) fn ends_of_all(both: &SideBySide) -> Vec<Operation> {
    let mut waiting = both.calls(|stage| stage == Stage::Waiting);
    waiting.sort_unstable_by_key(|number| (number % 2, number % 5));
    let granted = both.calls(|stage| matches!(stage, Stage::Granted(_)));
    let sent = both.calls(|stage| matches!(stage, Stage::Sent(_)));
    let ends = waiting.into_iter().map(Operation::Disconnect);
    let ends = ends.chain(granted.into_iter().map(|number| match number % 3 {
        0 => Operation::Write(number),
        _ => Operation::Abandon(number),
    }));
    let ends = ends.chain(sent.into_iter().map(|number| match number % 2 {
        0 => Operation::Confirm(number),
        _ => Operation::Unsent(number),
    }));
    ends.chain([Operation::Send, Operation::Tick]).collect()
}
