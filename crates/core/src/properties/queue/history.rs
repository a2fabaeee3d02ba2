//! Histories of waiting calls: operations chosen in the state that the model is in.

use super::SideBySide;
use crate::model::call::{self, Operation, Stage, Wait};
use crate::model::lock::{Amount, Call, Event, Key, MICROS, NONE, Verb};
use crate::model::queue::Queue;
use crate::properties::choices::Choices;
use crate::properties::locks::history::{KEYS, restored};

/// A time in 2026.
pub(super) const TODAY: u64 = 1_795_000_000_000_000;
/// Few owners, so that they compete.
pub(super) const OWNERS: usize = 4;
/// One for each program.
pub(super) const SESSIONS: usize = 2;

/// The next step; `None` if the choice does not fit the state.
pub(super) fn operation(choices: &mut Choices<'_>, model: &Queue) -> Option<Operation> {
    let kind = choices.number(0..=71);
    let nth = |choices: &mut Choices<'_>,
               is: fn(&call::Call) -> bool,
               operation: fn(usize) -> Operation| {
        let calls = model.calls.iter().filter(|call| is(call));
        let numbers: Vec<_> = calls.map(|call| call.number).collect();
        (!numbers.is_empty()).then(|| operation(choices.one_of(&numbers)))
    };
    let is_waiting = |call: &call::Call| call.stage == Stage::Waiting && !call.is_queued;
    let is_granted = |call: &call::Call| matches!(call.stage, Stage::Granted(_));
    let is_pending =
        |call: &call::Call| matches!(call.stage, Stage::Granted(_) | Stage::Written(_));
    let is_sent = |call: &call::Call| matches!(call.stage, Stage::Sent(_));
    Some(match kind {
        0..=33 => {
            let mut call = call(choices, model);
            let wait = wait(choices, &mut call.verb);
            Operation::Call(call, wait)
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
        59..=63 => Operation::Tick,
        64..=66 => Operation::Leave(choices.index(SESSIONS)),
        67..=70 => Operation::Return(choices.index(SESSIONS)),
        _ => Operation::EndSession(choices.index(SESSIONS)),
    })
}

/// How an acquire waits, if at all.
fn wait(choices: &mut Choices<'_>, verb: &mut Verb) -> Option<Wait> {
    let Verb::Acquire { holds, .. } = verb else {
        return None;
    };
    let millis = match choices.number(0..=9) {
        0..=1 => return None,
        2..=4 => 0,
        _ => choices.number(1..=60),
    };
    let session = choices.maybe(10, |choices| choices.index(SESSIONS));
    let is_queued = session.is_some() && choices.chance(12);
    if is_queued {
        holds.get_or_insert(1);
    }
    Some(Wait {
        millis,
        session,
        is_queued,
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
    let mut blocked = both.calls(|call| call.stage == Stage::Waiting && !call.is_queued);
    blocked.sort_unstable_by_key(|number| (number % 2, number % 5));
    let granted = both.calls(|call| matches!(call.stage, Stage::Granted(_)));
    let sent = both.calls(|call| matches!(call.stage, Stage::Sent(_)));
    let ends = blocked.into_iter().map(Operation::Disconnect);
    let ends = ends.chain((0..SESSIONS).map(Operation::EndSession));
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
