//! Properties of every history.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::history::History;
use super::model::{Model, NAMES, Name, OWNERS, Operation};
use super::system::{System, lock_id, name};
use crate::{Deadline, LeaseWatch, LockId, WaiterId};

/// Runs a history in the model. `check` gets each operation and the model after it.
pub(super) fn run(
    history: &History,
    mut check: impl FnMut(Operation, &Model) -> TestCaseResult,
) -> Result<Model, TestCaseError> {
    let mut model = Model::default();
    for step in &history.0 {
        let Some(operation) = step.at(&model) else {
            continue;
        };
        if matches!(operation, Operation::Swap) {
            // A pending grant whose lock moves to another database is not found again. So deliver all.
            let pending: Vec<_> = model.pending().map(|call| call.number).collect();
            for number in pending {
                model.apply(Operation::Deliver(number));
                check(Operation::Deliver(number), &model)?;
            }
        }
        model.apply(operation);
        check(operation, &model)?;
    }
    Ok(model)
}

/// The operations that end every call of the model, in several ways and orders.
fn ends_of_all(model: &Model) -> Vec<Operation> {
    let waiting: Vec<_> = model.waiting().map(|call| call.number).collect();
    let pending: Vec<_> = model.pending().map(|call| call.number).collect();
    let (even, odd): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|n| n.is_multiple_of(2));
    let waiting = odd.into_iter().chain(even.into_iter().rev());
    let pending = pending.into_iter().map(|number| match number % 3 {
        0 => Operation::Deliver(number),
        _ => Operation::Abandon(number),
    });
    waiting
        .map(Operation::Disconnect)
        .chain(pending)
        .chain([Operation::Tick])
        .collect()
}

/// The system and the model are in the same state.
fn same(system: &System, model: &Model) -> TestCaseResult {
    system.queues.check();
    system.pending_grants.check();
    prop_assert_eq!(&system.ended, &model.ended);
    prop_assert_eq!(system.ids.len(), model.joined);
    prop_assert_eq!(
        system.pending_grants.is_empty(),
        model.pending().count() == 0
    );
    let locks = system.locks.iter().map(|(name, held)| {
        let grant = (held.grant.token.number(), held.grant.holds.number());
        (*name, held.owner.bytes(), grant, held.end)
    });
    let expected = model.locks.iter().map(|(name, lock)| {
        let grant = (lock.token, lock.holds);
        (
            *name,
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
    for name in NAMES {
        let (database, key) = (name.0, [name.1]);
        let queue: Vec<_> = queues
            .iter(database, &key)
            .map(|(id, waiter)| (system.numbers[&id], waiter.owner.as_owner().bytes()))
            .collect();
        let expected: Vec<_> = model
            .waiting_at(name)
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
        prop_assert_eq!(queue, expected);
        let watched = system.watch.contains(&lock_id(name));
        prop_assert!(
            !watched || queues.waiting(database, &key) > 0,
            "watched, and nobody waits"
        );
    }
    for database in [None, Some(0), Some(1)] {
        let mut lock_ids: Vec<_> = queues.lock_ids(database).iter().map(name).collect();
        lock_ids.sort_unstable();
        let here = |name: &Name| database.is_none_or(|database| database == name.0);
        let waited: BTreeSet<_> = model.waiting().map(|call| call.name).filter(here).collect();
        prop_assert_eq!(lock_ids, waited.into_iter().collect::<Vec<_>>());
    }
    Ok(())
}

/// After every tick: no call waits for a free lock or for its owner's, and each lock waited for is polled.
fn nobody_is_overlooked(system: &mut System) -> TestCaseResult {
    let mut waited_for = Vec::new();
    for name in NAMES {
        let (database, key) = (name.0, [name.1]);
        if system.queues.waiting(database, &key) == 0 {
            continue;
        }
        let held = system.locks.get(&name);
        prop_assert!(held.is_some(), "waiting for a free lock");
        let held = held.unwrap();
        let own = system.queues.first_of(database, &key, held.owner.bytes());
        prop_assert_eq!(own, None, "waiting for its own lock");
        waited_for.push(name);
    }
    let mut polled: Vec<_> = all_polled(&mut system.watch).iter().map(name).collect();
    polled.sort_unstable();
    prop_assert_eq!(polled, waited_for, "the polled locks");
    Ok(())
}

/// The queues agree with a list; nobody is overlooked, and each call ends once.
pub(super) fn agree_with_a_list(history: &History) -> TestCaseResult {
    let mut system = System::default();
    let mut check = |operation, model: &Model| {
        system.apply(operation);
        same(&system, model)
            .map_err(|error| TestCaseError::fail(format!("{error}: after {operation:?}")))?;
        if matches!(operation, Operation::Tick) {
            nobody_is_overlooked(&mut system)?;
        }
        Ok(())
    };
    let mut model = run(history, &mut check)?;
    for operation in ends_of_all(&model) {
        model.apply(operation);
        check(operation, &model)?;
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
