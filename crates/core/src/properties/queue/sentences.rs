//! Sentences of the contract that hold after every operation.

use std::collections::BTreeSet;

use super::{KEYS, SideBySide};
use crate::model::call::{Call, Operation, Stage};
use crate::model::lock::Event;
use crate::model::queue::Queue;

pub(super) fn hold(before: &Queue, after: &SideBySide) {
    each_call_ends_once(after);
    match after.trace.0.last() {
        Some(Operation::Tick) => nobody_is_overlooked(after),
        Some(Operation::Event(Event::Restore(..))) => {}
        _ => nobody_passes_the_line(before, &after.model),
    }
}

/// A call that waits and gets a grant of its own leaves nobody behind who came before it. A caller that does
/// not wait and gets one finds nobody in line.
fn nobody_passes_the_line(before: &Queue, after: &Queue) {
    for key in KEYS {
        let Some(first) = after.waiting_at(key).next() else {
            continue;
        };
        let holders = after.locks.holders(key).into_iter();
        for new in holders.filter(|holder| holder.grant > before.locks.grants) {
            let mut granted = after.calls.iter().filter(|call| match call.stage {
                Stage::Granted(granted) => granted.as_granted.grant == new.grant,
                _ => false,
            });
            let call = granted.next();
            assert!(
                call.is_some_and(|call| call.number < first.number),
                "{new:?} passed {first:?}"
            );
        }
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

/// After a tick no call waits that has room, or whose owner holds the lock alone. Each lock that is waited for is
/// looked at in turn.
fn nobody_is_overlooked(after: &SideBySide) {
    for key in KEYS {
        let Some(first) = after.model.waiting_at(key).next() else {
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
        let mut waiting = after.model.waiting_at(key);
        assert!(
            !is_exclusive || !waiting.any(is_holders),
            "the holder waits for its lock"
        );
    }
}
