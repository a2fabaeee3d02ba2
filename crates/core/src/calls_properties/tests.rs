use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::invariants::{agree_with_a_list, run};
use super::model;
use super::strategies::histories;
use crate::{CallId, Calls, Limit, Monotonic, Owner, OwnerBuf, Waiter};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 256 }))]

    #[test]
    fn the_calls_agree_with_a_list(history in histories()) {
        agree_with_a_list(&history)?;
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn the_histories_reach_every_case() {
    let mut runner = TestRunner::deterministic();
    let mut cases = BTreeSet::new();
    for _ in 0..96 {
        let history = histories().new_tree(&mut runner).unwrap().current();
        let model = run(&history, |_, _| Ok(())).unwrap();
        cases.extend(&model.cases);
        cases.extend(model.ended.iter().map(|(_, end)| match end {
            model::End::Granted => "granted",
            model::End::Abandoned => "abandoned",
            model::End::TimedOut => "timed out",
            model::End::Cancelled => "cancelled",
            model::End::Disconnected => "disconnected",
            model::End::Refused(_) => "refused",
        }));
    }
    let expected = [
        "a hold given back",
        "abandoned",
        "answered directly while pending",
        "cancelled",
        "disconnected",
        "expired",
        "given back too late",
        "given back whole",
        "granted",
        "no hold to give back",
        "raised while pending",
        "the last hold stays",
        "timed out",
        "unsent and changed since",
        "unsent and given back",
    ];
    assert_eq!(cases.into_iter().collect::<Vec<_>>(), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3))]

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn thousands_keep_their_order(
        joins in prop::collection::vec((0..3_u8, 0..40_u8, 0..50_u64), 2000..4000),
        leaves in prop::collection::vec((0..4_u8, any::<Index>()), 3000),
    ) {
        let mut calls = Calls::default();
        let mut list: Vec<(CallId, u8, u8, u64)> = Vec::new();
        for (key, owner, until) in joins {
            let waiter = Waiter {
                owner: OwnerBuf::from(Owner::new(&[owner]).unwrap()),
                lease: None,
                holds: None,
                limit: Limit::ONE,
                keep: None,
                session: None,
                names_limit: false,
                client_id: list.len() as u64,
                since: Monotonic(0),
                until: Some(Monotonic(until)),
            };
            list.push((calls.join(0, &[key], waiter, ()), key, owner, until));
        }
        for (way, index) in leaves {
            if list.is_empty() {
                break;
            }
            let (any, key, owner, _) = *index.get(&list);
            let here = list.iter().filter(|call| call.1 == key);
            let own = here.clone().find(|call| call.2 == owner);
            let next_end = list.iter().min_by_key(|call| (call.3, call.0)).unwrap();
            prop_assert_eq!(calls.waiting(0, &[key]), here.clone().count());
            let (id, expected) = match way {
                0 => (Some(any), Some(any)),
                1 => (calls.first(0, &[key]), here.clone().next().map(|call| call.0)),
                2 => (calls.first_of(0, &[key], &[owner]), own.map(|call| call.0)),
                _ => (calls.next_end().map(|(_, id)| id), Some(next_end.0)),
            };
            prop_assert_eq!(id, expected);
            calls.remove(id.unwrap());
            list.retain(|call| Some(call.0) != id);
        }
        calls.check();
        for key in 0..3 {
            let key = [key];
            let queue = calls.iter(0, &key).map(|(id, _)| id);
            let expected = list.iter().filter(|call| call.1 == key[0]).map(|call| call.0);
            prop_assert!(queue.eq(expected));
        }
        for call in list {
            calls.remove(call.0);
        }
        prop_assert_eq!(calls.entries(), 0);
    }
}
