//! What is so of every history.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::history::History;
use super::model::{Deed, Model, OWNERS, SPOTS, Spot};
use super::world::{World, place, spot};
use crate::{Deadline, Place, WaiterId, Watch};

/// Goes through a history in the model, and shows each deed with the model behind it.
pub(super) fn walk(
    history: &History,
    mut show: impl FnMut(Deed, &Model) -> TestCaseResult,
) -> Result<Model, TestCaseError> {
    let mut model = Model::default();
    for step in &history.0 {
        let Some(deed) = step.at(&model) else {
            continue;
        };
        if matches!(deed, Deed::Swap) {
            // A grant on its way that moves away is not found again: see to it that none is.
            let flying: Vec<_> = model.flying().map(|call| call.number).collect();
            for number in flying {
                model.happens(Deed::Arrive(number));
                show(Deed::Arrive(number), &model)?;
            }
        }
        model.happens(deed);
        show(deed, &model)?;
    }
    Ok(model)
}

/// Everybody leaves, in their own ways.
fn leave_all(model: &Model, mut show: impl FnMut(Deed) -> TestCaseResult) -> TestCaseResult {
    let waiting: Vec<_> = model.waiting().map(|call| call.number).collect();
    let flying: Vec<_> = model.flying().map(|call| call.number).collect();
    let (even, odd): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|n| n.is_multiple_of(2));
    for number in odd.into_iter().chain(even.into_iter().rev()) {
        show(Deed::Gone(number))?;
    }
    for number in flying {
        let arrives = number.is_multiple_of(3);
        show(if arrives { Deed::Arrive } else { Deed::Lose }(number))?;
    }
    show(Deed::Round)
}

fn same(world: &World, model: &Model) -> TestCaseResult {
    world.queues.check();
    world.flights.check();
    prop_assert_eq!(&world.ended, &model.ended);
    prop_assert_eq!(world.ids.len(), model.joined);
    prop_assert_eq!(world.flights.is_empty(), model.flying().count() == 0);
    let locks = world.locks.iter().map(|(spot, held)| {
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

    let queues = &world.queues;
    let number = |id: Option<WaiterId>| id.map(|id| world.numbers[&id]);
    prop_assert_eq!(queues.len(), model.waiting().count());
    prop_assert_eq!(queues.is_empty(), model.waiting().count() == 0);
    let next_end = queues.next_end();
    prop_assert_eq!(
        next_end.map(|(end, id)| (end.0, world.numbers[&id])),
        model.next_end()
    );
    for spot in SPOTS {
        let (database, key) = (spot.0, [spot.1]);
        let line: Vec<_> = queues.iter(database, &key).collect();
        let line: Vec<_> = line
            .into_iter()
            .map(|(id, waiter)| (world.numbers[&id], waiter.owner.as_owner().bytes()))
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
        let watched = world.watch.watches(&place(spot));
        prop_assert!(
            !watched || queues.waiting(database, &key) > 0,
            "nobody waits here"
        );
    }
    for database in [None, Some(0), Some(1)] {
        let mut places: Vec<_> = queues.places(database).iter().map(spot).collect();
        places.sort_unstable();
        let here = |spot: &Spot| database.is_none_or(|database| database == spot.0);
        let waited: BTreeSet<_> = model.waiting().map(|call| call.spot).filter(here).collect();
        prop_assert_eq!(places, waited.into_iter().collect::<Vec<_>>());
    }
    Ok(())
}

/// What is so behind every round, whatever happened.
fn nobody_is_overlooked(world: &mut World) -> TestCaseResult {
    let mut waited_for = Vec::new();
    for spot in SPOTS {
        let (database, key) = (spot.0, [spot.1]);
        if world.queues.waiting(database, &key) == 0 {
            continue;
        }
        let held = world.locks.get(&spot);
        prop_assert!(held.is_some(), "waiting for a free lock");
        let held = held.unwrap();
        let own = world.queues.first_of(database, &key, held.owner.bytes());
        prop_assert_eq!(own, None, "waiting for its own lock");
        waited_for.push(spot);
    }
    let mut turns: Vec<_> = all_turns(&mut world.watch).iter().map(spot).collect();
    turns.sort_unstable();
    prop_assert_eq!(turns, waited_for, "who is looked at in turn");
    Ok(())
}

/// The queues tell the same as a list; nobody is overlooked, and everybody's call ends once.
pub(super) fn agree_with_a_list(history: &History) -> TestCaseResult {
    let mut world = World::default();
    let mut does = |deed, model: &Model| {
        world.happens(deed);
        same(&world, model)
            .map_err(|error| TestCaseError::fail(format!("{error}: behind {deed:?}")))?;
        if matches!(deed, Deed::Round) {
            nobody_is_overlooked(&mut world)?;
        }
        Ok(())
    };
    let mut model = walk(history, &mut does)?;
    let mut deeds = Vec::new();
    leave_all(&model, |deed| {
        deeds.push(deed);
        Ok(())
    })?;
    for deed in deeds {
        model.happens(deed);
        does(deed, &model)?;
    }
    let mut ended: Vec<_> = world.ended.iter().map(|(number, _)| *number).collect();
    ended.sort_unstable();
    prop_assert_eq!(
        ended,
        (0..world.ids.len()).collect::<Vec<_>>(),
        "each ends once"
    );
    prop_assert_eq!((world.queues.entries(), world.flights.entries()), (0, 0));
    prop_assert_eq!(world.watch.next_end(), None);
    prop_assert_eq!(all_turns(&mut world.watch), []);
    Ok(())
}

fn all_turns(watch: &mut Watch) -> Vec<Place> {
    (0..watch.len()).filter_map(|_| watch.turn()).collect()
}
