//! What holds in every history.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::history::History;
use super::model::{Model, OWNERS, Operation, SPOTS, Spot};
use super::system::{System, lock_id, spot};
use crate::{Deadline, LeaseWatch, LockId, WaiterId};

/// Goes through a history in the model, and shows each operation with the model behind it.
pub(super) fn walk(
    history: &History,
    mut show: impl FnMut(Operation, &Model) -> TestCaseResult,
) -> Result<Model, TestCaseError> {
    let mut model = Model::default();
    for step in &history.0 {
        let Some(operation) = step.at(&model) else {
            continue;
        };
        if matches!(operation, Operation::Swap) {
            // A pending grant that moves away is not found again: see to it that none is.
            let pending: Vec<_> = model.pending().map(|call| call.number).collect();
            for number in pending {
                model.happens(Operation::Deliver(number));
                show(Operation::Deliver(number), &model)?;
            }
        }
        model.happens(operation);
        show(operation, &model)?;
    }
    Ok(model)
}

/// Everybody leaves, in their own ways.
fn leave_all(model: &Model, mut show: impl FnMut(Operation) -> TestCaseResult) -> TestCaseResult {
    let waiting: Vec<_> = model.waiting().map(|call| call.number).collect();
    let pending: Vec<_> = model.pending().map(|call| call.number).collect();
    let (even, odd): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|n| n.is_multiple_of(2));
    for number in odd.into_iter().chain(even.into_iter().rev()) {
        show(Operation::Disconnect(number))?;
    }
    for number in pending {
        let arrives = number.is_multiple_of(3);
        show(if arrives {
            Operation::Deliver
        } else {
            Operation::Abandon
        }(number))?;
    }
    show(Operation::Tick)
}

fn same(system: &System, model: &Model) -> TestCaseResult {
    system.queues.check();
    system.pending_grants.check();
    prop_assert_eq!(&system.ended, &model.ended);
    prop_assert_eq!(system.ids.len(), model.joined);
    prop_assert_eq!(
        system.pending_grants.is_empty(),
        model.pending().count() == 0
    );
    let locks = system.locks.iter().map(|(spot, held)| {
        let grant = (held.grant.token.number(), held.grant.holds.number());
        (*spot, held.owner.bytes(), grant, held.deadline)
    });
    let expected = model.locks.iter().map(|(spot, lock)| {
        let grant = (lock.token, lock.holds);
        (
            *spot,
            OWNERS[lock.owner],
            grant,
            Deadline::At(lock.deadline),
        )
    });
    prop_assert_eq!(locks.collect::<Vec<_>>(), expected.collect::<Vec<_>>());

    let queues = &system.queues;
    let number = |id: Option<WaiterId>| id.map(|id| system.numbers[&id]);
    prop_assert_eq!(queues.len(), model.waiting().count());
    prop_assert_eq!(queues.is_empty(), model.waiting().count() == 0);
    let next_end = queues.next_end();
    prop_assert_eq!(
        next_end.map(|(end, id)| (end.0, system.numbers[&id])),
        model.next_end()
    );
    for spot in SPOTS {
        let (database, key) = (spot.0, [spot.1]);
        let line: Vec<_> = queues.iter(database, &key).collect();
        let line: Vec<_> = line
            .into_iter()
            .map(|(id, waiter)| (system.numbers[&id], waiter.owner.as_owner().bytes()))
            .collect();
        let expected: Vec<_> = model
            .waiting_at(spot)
            .map(|call| (call.number, OWNERS[call.owner]))
            .collect();
        prop_assert_eq!(queues.waiting(database, &key), expected.len());
        prop_assert_eq!(
            number(queues.first(database, &key)),
            expected.first().map(|c| c.0)
        );
        for owner in OWNERS {
            let own = expected.iter().find(|call| call.1 == owner);
            let first_of = queues.first_of(database, &key, owner);
            prop_assert_eq!(number(first_of), own.map(|call| call.0));
        }
        prop_assert_eq!(line, expected);
        let watched = system.watch.contains(&lock_id(spot));
        prop_assert!(
            !watched || queues.waiting(database, &key) > 0,
            "nobody waits here"
        );
    }
    for database in [None, Some(0), Some(1)] {
        let mut lock_ids: Vec<_> = queues.lock_ids(database).iter().map(spot).collect();
        lock_ids.sort_unstable();
        let here = |spot: &Spot| database.is_none_or(|database| database == spot.0);
        let waited: BTreeSet<_> = model.waiting().map(|call| call.spot).filter(here).collect();
        prop_assert_eq!(lock_ids, waited.into_iter().collect::<Vec<_>>());
    }
    Ok(())
}

/// What holds after every tick, whatever happened.
fn nobody_is_overlooked(system: &mut System) -> TestCaseResult {
    let mut waited_for = Vec::new();
    for spot in SPOTS {
        let (database, key) = (spot.0, [spot.1]);
        if system.queues.waiting(database, &key) == 0 {
            continue;
        }
        let held = system.locks.get(&spot);
        prop_assert!(held.is_some(), "waiting for a free lock");
        let held = held.unwrap();
        let own = system.queues.first_of(database, &key, held.owner.bytes());
        prop_assert_eq!(own, None, "waiting for its own lock");
        waited_for.push(spot);
    }
    let mut polled: Vec<_> = all_polled(&mut system.watch).iter().map(spot).collect();
    polled.sort_unstable();
    prop_assert_eq!(polled, waited_for, "who is polled in turn");
    Ok(())
}

/// The queues tell the same as a list; nobody is overlooked, and everybody's call ends once.
pub(super) fn agree_with_a_list(history: &History) -> TestCaseResult {
    let mut system = System::default();
    let mut does = |operation, model: &Model| {
        system.happens(operation);
        same(&system, model)
            .map_err(|error| TestCaseError::fail(format!("{error}: behind {operation:?}")))?;
        if matches!(operation, Operation::Tick) {
            nobody_is_overlooked(&mut system)?;
        }
        Ok(())
    };
    let mut model = walk(history, &mut does)?;
    let mut operations = Vec::new();
    leave_all(&model, |operation| {
        operations.push(operation);
        Ok(())
    })?;
    for operation in operations {
        model.happens(operation);
        does(operation, &model)?;
    }
    let mut ended: Vec<_> = system.ended.iter().map(|(number, _)| *number).collect();
    ended.sort_unstable();
    prop_assert_eq!(
        ended,
        (0..system.ids.len()).collect::<Vec<_>>(),
        "each ends once"
    );
    prop_assert_eq!(
        (system.queues.entries(), system.pending_grants.entries()),
        (0, 0)
    );
    prop_assert_eq!(system.watch.next_end(), None);
    prop_assert_eq!(all_polled(&mut system.watch), []);
    Ok(())
}

fn all_polled(watch: &mut LeaseWatch) -> Vec<LockId> {
    (0..watch.len())
        .filter_map(|_| watch.next_to_poll())
        .collect()
}
