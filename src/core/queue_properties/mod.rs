//! Random histories of calls that wait: told beside a naive list, and held to the promises of the
//! contract without it.

mod model;
mod world;

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::{TestCaseResult, TestRunner};

use super::{Deadline, Monotonic, Queues, Waiter, WaiterId};
use model::{Deed, Model, OWNERS, SPOTS, Spot};
use world::{World, place, spot};

/// A deed, before it is known which call it hits.
#[derive(Clone, Debug)]
enum Step {
    Deed(Deed),
    Gone(Index),
    Arrive(Index),
    Lose(Index),
}

impl Step {
    fn at(&self, model: &Model) -> Option<Deed> {
        let waiting: Vec<_> = model.waiting().map(|call| call.number).collect();
        let flying: Vec<_> = model.flying().map(|call| call.number).collect();
        let (index, calls, deed): (_, _, fn(usize) -> Deed) = match self {
            Self::Deed(deed) => return Some(*deed),
            Self::Gone(index) => (index, waiting, Deed::Gone),
            Self::Arrive(index) => (index, flying, Deed::Arrive),
            Self::Lose(index) => (index, flying, Deed::Lose),
        };
        (!calls.is_empty()).then(|| deed(*index.get(&calls)))
    }
}

fn spots() -> impl Strategy<Value = Spot> {
    prop_oneof![
        3 => Just(SPOTS[0]),
        1 => prop::sample::select(&SPOTS[..]),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let holds = prop_oneof![
        4 => Just(None),
        4 => Just(Some(1)),
        2 => (2..4_u32).prop_map(Some),
    ];
    let block = prop_oneof![
        2 => Just(None),
        3 => Just(Some(0)),
        5 => (1..60_u64).prop_map(Some),
    ];
    let owners = || 0..OWNERS.len();
    prop_oneof![
        14 => (spots(), owners(), holds, block).prop_map(|(spot, owner, holds, block)| {
            Step::Deed(Deed::Acquire { spot, owner, holds, block })
        }),
        5 => (spots(), owners(), any::<bool>())
            .prop_map(|(spot, owner, all)| Step::Deed(Deed::Release { spot, owner, all })),
        1 => spots().prop_map(|spot| Step::Deed(Deed::Raise(spot))),
        2 => any::<Index>().prop_map(Step::Gone),
        2 => any::<Index>().prop_map(Step::Arrive),
        3 => any::<Index>().prop_map(Step::Lose),
        3 => (1..15_u64).prop_map(|millis| Step::Deed(Deed::Pass(millis))),
        2 => spots().prop_map(|spot| Step::Deed(Deed::Del(spot))),
        1 => (0..2).prop_map(|database| Step::Deed(Deed::Flush(database))),
        1 => Just(Step::Deed(Deed::Swap)),
        5 => Just(Step::Deed(Deed::Round)),
    ]
}

fn histories() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(steps(), 1..150)
}

/// Goes through a history in the model, and shows each deed with the model behind it.
fn walk(
    history: &[Step],
    mut show: impl FnMut(Deed, &Model) -> TestCaseResult,
) -> Result<Model, TestCaseError> {
    let mut model = Model::default();
    for step in history {
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
            .map(|(id, waiter)| (world.numbers[&id], &*waiter.owner))
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
    let mut turns: Vec<_> = world.watch.turns(usize::MAX).iter().map(spot).collect();
    turns.sort_unstable();
    prop_assert_eq!(turns, waited_for, "who is looked at in turn");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_queues_agree_with_a_list(history in histories()) {
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
        let mut model = walk(&history, &mut does)?;
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
        prop_assert_eq!(ended, (0..world.ids.len()).collect::<Vec<_>>(), "each ends once");
        prop_assert_eq!((world.queues.entries(), world.flights.entries()), (0, 0));
        prop_assert_eq!(world.watch.next_end(), None);
        prop_assert_eq!(world.watch.turns(usize::MAX), []);
    }
}

#[test]
fn the_histories_come_to_every_case() {
    let mut runner = TestRunner::deterministic();
    let mut cases = BTreeSet::new();
    for _ in 0..96 {
        let history = histories().new_tree(&mut runner).unwrap().current();
        let model = walk(&history, |_, _| Ok(())).unwrap();
        cases.extend(&model.cases);
        cases.extend(model.ended.iter().map(|(_, end)| match end {
            model::End::Granted => "granted",
            model::End::Lost => "lost",
            model::End::TimedOut => "timed out",
            model::End::CalledOff => "called off",
            model::End::Gone => "gone",
            model::End::Refused(_) => "refused",
        }));
    }
    let expected = [
        "a hold given back",
        "answered directly on its way",
        "called off",
        "expired",
        "given back too late",
        "given back whole",
        "gone",
        "granted",
        "lost",
        "no hold to give back",
        "raised on its way",
        "the last hold stays",
        "timed out",
    ];
    assert_eq!(cases.into_iter().collect::<Vec<_>>(), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3))]

    #[test]
    fn thousands_keep_their_order(
        joins in prop::collection::vec((0..3_u8, 0..40_u8, 0..50_u64), 2000..4000),
        leaves in prop::collection::vec((0..4_u8, any::<Index>()), 3000),
    ) {
        let mut queues = Queues::new();
        let mut list: Vec<(WaiterId, u8, u8, u64)> = Vec::new();
        for (key, owner, until) in joins {
            let waiter = Waiter {
                owner: Arc::from([owner]),
                lease: None,
                holds: None,
                client_id: 0,
                since: Monotonic(0),
                until: Some(Monotonic(until)),
            };
            list.push((queues.join(0, &[key], waiter), key, owner, until));
        }
        for (way, index) in leaves {
            if list.is_empty() {
                break;
            }
            let (any, key, owner, _) = *index.get(&list);
            let here = list.iter().filter(|call| call.1 == key);
            let own = here.clone().find(|call| call.2 == owner);
            let next_end = list.iter().min_by_key(|call| (call.3, call.0)).unwrap();
            prop_assert_eq!(queues.waiting(0, &[key]), here.clone().count());
            let (id, expected) = match way {
                0 => (Some(any), Some(any)),
                1 => (queues.first(0, &[key]), here.clone().next().map(|call| call.0)),
                2 => (queues.first_of(0, &[key], &[owner]), own.map(|call| call.0)),
                _ => (queues.next_end().map(|(_, id)| id), Some(next_end.0)),
            };
            prop_assert_eq!(id, expected);
            queues.leave(id.unwrap());
            list.retain(|call| Some(call.0) != id);
        }
        queues.check();
        for key in 0..3 {
            let key = [key];
            let line = queues.iter(0, &key).map(|(id, _)| id);
            let expected = list.iter().filter(|call| call.1 == key[0]).map(|call| call.0);
            prop_assert!(line.eq(expected));
        }
        for call in list {
            queues.leave(call.0);
        }
        prop_assert_eq!(queues.entries(), 0);
    }
}
