//! Sentences of the contract that hold after every operation.

use std::collections::BTreeSet;

use super::{KEYS, SideBySide};
use crate::model::call::{Call, End, Operation, Stage};
use crate::model::lock::Event;
use crate::model::queue::Queue;

pub(super) fn hold(before: &Queue, after: &SideBySide) {
    each_call_ends_once(after);
    nothing_is_granted_that_is_passed_over(before, &after.model);
    match after.trace.0.last() {
        Some(Operation::Tick) => nobody_is_overlooked(after),
        Some(Operation::Event(Event::Restore(..))) => {}
        _ => nobody_passes_the_line(before, &after.model),
    }
}

/// When a waiting call gets a new grant, no earlier call stays behind in line. When a call that does not wait gets a
/// new grant, no call is in line.
fn nobody_passes_the_line(before: &Queue, after: &Queue) {
    for key in KEYS {
        let Some(first) = after.eligible_at(key).next() else {
            continue;
        };
        let holders = after.locks.holders(key).into_iter();
        for new in holders.filter(|holder| holder.grant > before.locks.grants) {
            let is_of = |token| token == new.token;
            let granted = after.calls.iter().filter(|call| match call.stage {
                Stage::Granted(granted) => is_of(granted.as_granted.token),
                _ => false,
            });
            let told = after.ended.iter();
            let told = told.filter(|(_, end)| matches!(end, End::Told(token) if is_of(*token)));
            let granted = granted.map(|call| call.number);
            let number = granted.chain(told.map(|(number, _)| *number)).min();
            assert!(
                number.is_some_and(|number| number < first.number),
                "{new:?} passed {first:?}"
            );
        }
    }
}

/// A call that is passed over keeps waiting until its program polls again, or until it times out or is ended.
fn nothing_is_granted_that_is_passed_over(before: &Queue, after: &Queue) {
    for call in before.waiting().filter(|call| before.is_passed_over(call)) {
        let stays = after.waiting().any(|other| other.number == call.number);
        let end = after
            .ended
            .iter()
            .find(|(number, _)| *number == call.number);
        let is_ended = matches!(
            end,
            Some((
                _,
                End::TimedOut | End::Cancelled | End::Disconnected | End::SessionEnded
            ))
        );
        assert!(stays || is_ended, "{call:?}: {end:?}");
    }
}

fn each_call_ends_once(after: &SideBySide) {
    let ended: BTreeSet<_> = after
        .model
        .ended
        .iter()
        .map(|(number, _)| *number)
        .collect();
    assert_eq!(ended.len(), after.model.ended.len(), "a call ended twice");
    let is_open = |call: &&Call| {
        matches!(
            call.stage,
            Stage::Waiting | Stage::Granted(_) | Stage::Written(_)
        )
    };
    let open = after.model.calls.iter().filter(is_open);
    assert_eq!(
        ended.len() + open.count(),
        after.model.joined,
        "a call is lost"
    );
}

/// After a tick, no eligible call waits that has room or whose owner holds the lock alone. Ticks open all locks with
/// waiting calls in turn.
fn nobody_is_overlooked(after: &SideBySide) {
    for key in KEYS {
        let Some(first) = after.model.eligible_at(key).next() else {
            continue;
        };
        let locks = &after.model.locks;
        assert!(!locks.has_room(key, first.limit), "{first:?} has room");
        assert!(
            locks.holder(key, first.owner).is_none(),
            "{first:?} waits for its own lock"
        );
        let holders = locks.holders(key);
        let is_exclusive = holders.iter().any(|holder| holder.limit == 1);
        let is_holders = |call: &Call| holders.iter().any(|holder| holder.owner == call.owner);
        let mut eligible = after.model.eligible_at(key);
        assert!(
            !is_exclusive || !eligible.any(is_holders),
            "the holder waits for its lock"
        );
    }
}
