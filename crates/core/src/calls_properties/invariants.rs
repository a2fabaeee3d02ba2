//! Properties of every history.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::history::History;
use super::model::{Model, NAMES, OWNERS, Operation};
use super::system::{System, name};
use crate::{CallId, Calls, Deadline, LockId};

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
            // A pending grant whose lock moves to another database is not found again. So all are sent.
            let pending: Vec<_> = model.pending().map(|call| call.number).collect();
            let writes = pending.into_iter().map(Operation::Write);
            for operation in writes.chain([Operation::Send]) {
                model.apply(operation);
                check(operation, &model)?;
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
    let unanswered: Vec<_> = model.unanswered().map(|call| call.number).collect();
    let pending: Vec<_> = model.pending().map(|call| call.number).collect();
    let sent: Vec<_> = model.sent().map(|call| call.number).collect();
    let (even, odd): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|n| n.is_multiple_of(2));
    let waiting = odd.into_iter().chain(even.into_iter().rev());
    let abandoned = |number: &usize| !number.is_multiple_of(3);
    let abandons = unanswered.into_iter().filter(abandoned);
    let writes = pending.into_iter().filter(|number| !abandoned(number));
    let sent = sent.into_iter().map(|number| match number % 2 {
        0 => Operation::Confirm(number),
        _ => Operation::Unsent(number),
    });
    waiting
        .map(Operation::Disconnect)
        .chain(abandons.map(Operation::Abandon))
        .chain(writes.map(Operation::Write))
        .chain(sent)
        .chain([Operation::Send, Operation::Tick])
        .collect()
}

/// The system and the model are in the same state.
fn same(system: &System, model: &Model) -> TestCaseResult {
    system.calls.check();
    prop_assert_eq!(&system.ended, &model.ended);
    prop_assert_eq!(system.ids.len(), model.joined);
    let blocked: Vec<_> = system
        .calls
        .blocked()
        .map(|id| system.numbers[&id])
        .collect();
    let (granted, waiting) = blocked.split_at(model.pending().count());
    let numbers = |calls: &[usize]| calls.iter().copied().collect::<BTreeSet<_>>();
    prop_assert_eq!(
        numbers(granted),
        model.pending().map(|call| call.number).collect()
    );
    prop_assert_eq!(
        numbers(waiting),
        model.waiting().map(|call| call.number).collect()
    );
    prop_assert_eq!(system.calls.has_sent(), model.sent().count() > 0);
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

    let calls = &system.calls;
    let number = |id: Option<CallId>| id.map(|id| system.numbers[&id]);
    prop_assert_eq!(calls.len(), model.waiting().count());
    prop_assert_eq!(calls.is_empty(), model.waiting().count() == 0);
    let next_end = calls.next_end();
    prop_assert_eq!(
        next_end.map(|(end, id)| (end.0, system.numbers[&id])),
        model.next_end()
    );
    for name in NAMES {
        let (database, key) = (name.0, [name.1]);
        let queue: Vec<_> = calls
            .iter(database, &key)
            .map(|(id, call)| (system.numbers[&id], call.waiter.owner.as_owner().bytes()))
            .collect();
        let expected: Vec<_> = model
            .waiting_at(name)
            .map(|call| (call.number, OWNERS[call.owner]))
            .collect();
        prop_assert_eq!(calls.waiting(database, &key), expected.len());
        prop_assert_eq!(
            number(calls.first(database, &key)),
            expected.first().map(|c| c.0)
        );
        for owner in OWNERS {
            let own = expected.iter().find(|call| call.1 == owner);
            let first_of = calls.first_of(database, &key, owner);
            prop_assert_eq!(number(first_of), own.map(|call| call.0));
        }
        prop_assert_eq!(queue, expected);
    }
    let mut lock_ids: Vec<_> = calls.lock_ids().iter().map(name).collect();
    lock_ids.sort_unstable();
    let waited: BTreeSet<_> = model.waiting().map(|call| call.name).collect();
    prop_assert_eq!(lock_ids, waited.into_iter().collect::<Vec<_>>());
    Ok(())
}

/// After every tick: no call waits for a free lock or for its owner's, and each lock waited for is polled.
fn nobody_is_overlooked(system: &mut System) -> TestCaseResult {
    let mut waited_for = Vec::new();
    for name in NAMES {
        let (database, key) = (name.0, [name.1]);
        if system.calls.waiting(database, &key) == 0 {
            continue;
        }
        let held = system.locks.get(&name);
        prop_assert!(held.is_some(), "waiting for a free lock");
        let held = held.unwrap();
        let own = system.calls.first_of(database, &key, held.owner.bytes());
        prop_assert_eq!(own, None, "waiting for its own lock");
        waited_for.push(name);
    }
    let mut polled: Vec<_> = all_polled(&mut system.calls).iter().map(name).collect();
    polled.sort_unstable();
    prop_assert_eq!(polled, waited_for, "the polled locks");
    Ok(())
}

/// The calls agree with a list; nobody is overlooked, and each call ends once.
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
    // The first round ends with replies that are sent.
    for _ in 0..2 {
        for operation in ends_of_all(&model) {
            model.apply(operation);
            check(operation, &model)?;
        }
    }
    let mut ended: Vec<_> = system.ended.iter().map(|(number, _)| *number).collect();
    ended.sort_unstable();
    prop_assert_eq!(
        ended,
        (0..system.ids.len()).collect::<Vec<_>>(),
        "each ends once"
    );
    prop_assert_eq!(system.calls.entries(), 0);
    prop_assert!(system.calls.is_idle());
    Ok(())
}

fn all_polled(calls: &mut Calls) -> Vec<LockId> {
    (0..calls.locks())
        .filter_map(|_| calls.next_turn())
        .collect()
}
