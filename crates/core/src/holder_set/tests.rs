//! The holders beside a plain list of them, across the bounds between the two forms.

use proptest::prelude::*;

use super::*;
use crate::{Grant, Holds, Lease, Mismatch, SharedChange, SharedStep};

fn names() -> Vec<Vec<u8>> {
    (0..60_u8)
        .map(|n| vec![n; 1 + usize::from(n % 4)])
        .collect()
}

fn holder(name: &[u8], token: u64, end: u64, limit: u32, holds: u32) -> Holder<'_> {
    Holder {
        owner: Owner::new(name).unwrap(),
        grant: Grant {
            token: Token::new(token).unwrap(),
            holds: Holds::new(holds).unwrap(),
            lease: Lease::from_millis(1 + end).unwrap(),
        },
        limit: Limit::new(limit).unwrap(),
        end: Deadline::At(end),
    }
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Put(usize, u64, u32, u32),
    Remove(usize),
    RemoveEnded(u64),
    Cap(u64),
}

fn acts() -> impl Strategy<Value = Act> {
    let limits = prop_oneof![2 => Just(0), 1 => 1..4_u32];
    prop_oneof![
        30 => (0..60_usize, 0..1000_u64, limits, 1..3_u32)
            .prop_map(|(n, end, limit, holds)| Act::Put(n, end, limit, holds)),
        15 => (0..60_usize).prop_map(Act::Remove),
        1 => (0..400_u64).prop_map(Act::RemoveEnded),
        1 => (500..1000_u64).prop_map(Act::Cap),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 96 }))]

    #[test]
    fn the_shares_agree_with_a_list(acts in prop::collection::vec(acts(), 1..200)) {
        let names = names();
        let first = holder(&names[0], 1, 0, 0, 1);
        let (mut holders, mut list) = (HolderSet::one(&first), vec![first]);
        for (token, act) in (2..).zip(acts) {
            match act {
                Act::Put(n, end, limit, holds) => {
                    let owner = Owner::new(&names[n]).unwrap();
                    let present = list.iter().position(|holder| holder.owner == owner);
                    let token = present.map_or(token, |at| list[at].grant.token.number());
                    let holder = holder(&names[n], token, end, limit, holds);
                    holders.put(&holder);
                    match present {
                        Some(at) => list[at] = holder,
                        None => list.push(holder),
                    }
                }
                Act::Remove(n) => {
                    let owner = Owner::new(&names[n]).unwrap();
                    let holder = holders.find(owner);
                    let token = holder.map_or(Token::MAX, |holder| holder.grant.token);
                    let removed = list.iter().position(|holder| holder.owner == owner);
                    prop_assert_eq!(holders.remove(token), removed.is_some());
                    removed.map(|at| list.remove(at));
                }
                Act::RemoveEnded(before) => {
                    let before = Deadline::At(before);
                    let mut ended: Vec<_> =
                        holders.ended(before).map(|holder| holder.grant.token).collect();
                    ended.sort();
                    let gone = list.iter().filter(|holder| holder.end < before);
                    let gone: Vec<_> = gone.map(|holder| holder.grant.token).collect();
                    prop_assert_eq!(ended, gone);
                    holders.remove_ended(before);
                    list.retain(|holder| holder.end >= before);
                }
                Act::Cap(at) => {
                    let at = Deadline::At(at);
                    holders.cap_ends(at);
                    for holder in &mut list {
                        holder.end = holder.end.min(at);
                    }
                }
            }
            prop_assert_eq!(holders.iter().collect::<Vec<_>>(), list.clone());
            prop_assert_eq!(holders.count(), list.len());
            let ends = || list.iter().map(|holder| holder.end);
            prop_assert_eq!(holders.next_end(), ends().min().unwrap_or(Deadline::Never));
            prop_assert_eq!(holders.latest_end(), ends().max().unwrap_or(Deadline::Never));
            let least = list.iter().map(|holder| holder.limit).min();
            prop_assert_eq!(holders.least_limit(), least.unwrap_or(Limit::NONE));
            for (n, name) in names.iter().enumerate() {
                let owner = Owner::new(name).unwrap();
                let there = list.iter().find(|holder| holder.owner == owner).copied();
                prop_assert_eq!(holders.find(owner), there, "{}", n);
                if let Some(holder) = there {
                    let token = holder.grant.token;
                    prop_assert_eq!(holders.with(token), there);
                    let others = list.iter().filter(|holder| holder.grant.token != token);
                    prop_assert_eq!(
                        holders.latest_end_without(Some(token)),
                        others.map(|holder| holder.end).max()
                    );
                }
            }
            let few = matches!(holders.0, Form::Few(_));
            let fits = if few { list.len() <= FEW } else { list.len() > FEW_AGAIN };
            prop_assert!(fits, "{} holders, few: {}", list.len(), few);
            let rewritten = holders.rewrite().try_fold(None, |made: Option<HolderSet>, change| {
                let mut made = made;
                Ok(match change.apply(made.as_mut())? {
                    Some(new) => Some(new),
                    None => made,
                })
            });
            if !list.is_empty() && least > Some(Limit::ONE) && least.unwrap().allows(list.len()) {
                prop_assert_eq!(rewritten, Ok::<_, Mismatch>(Some(holders.clone())));
            }
        }
    }
}

#[test]
fn a_change_made_for_another_lock_is_found_out() {
    let lock = || {
        let mut holders = HolderSet::one(&holder(b"a", 1, 50, 0, 1));
        holders.put(&holder(b"b", 2, 60, 3, 1));
        holders
    };
    let put = |name: &'static [u8], token, count, latest_end| SharedChange {
        cap: None,
        step: SharedStep::Put(holder(name, token, 40, 3, 1)),
        count,
        latest_end,
        whole: false,
    };
    assert_eq!(put(b"c", 3, 3, 60).apply(Some(&mut lock())), Ok(None));
    for (change, why) in [
        (put(b"c", 3, 4, 60), "another number of holders"),
        (put(b"c", 3, 3, 61), "another end"),
        (put(b"a", 3, 3, 60), "an owner with another token"),
        (put(b"c", 2, 2, 60), "a token with another owner"),
        (put(b"b", 1, 2, 60), "an owner with a lower token"),
        (
            SharedChange {
                step: SharedStep::Put(holder(b"c", 3, 40, 2, 1)),
                ..put(b"c", 3, 3, 60)
            },
            "more than it allows",
        ),
    ] {
        assert!(change.apply(Some(&mut lock())).is_err(), "{why}");
        assert!(change.apply(None).is_err(), "{why}");
    }
}

#[test]
fn few_shares_take_little_more_than_their_records() {
    let owner = [b'u'; 36];
    // Its length, limit and end beside the 46 bytes of a record.
    assert_eq!(
        HolderSet::one(&holder(&owner, 1, 50, 0, 1)).memory(),
        46 + 14
    );
    assert!(std::mem::size_of::<HolderSet>() <= 24);
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn ten_thousand_shares_come_and_go() {
    let names: Vec<_> = (0..10_000_u32).map(|n| format!("owner:{n:030}")).collect();
    let mut holders = HolderSet::one(&holder(b"first", 1, 7, 0, 1));
    for (token, name) in (2..).zip(&names) {
        holders.put(&holder(name.as_bytes(), token, 1000 + token, 0, 1));
    }
    let each = holders.memory() / holders.count();
    assert!(each < 190, "{each} bytes for a holder");
    for name in names.iter().rev() {
        let token = holders
            .find(Owner::new(name.as_bytes()).unwrap())
            .unwrap()
            .grant
            .token;
        assert!(holders.remove(token));
    }
    assert_eq!(holders, HolderSet::one(&holder(b"first", 1, 7, 0, 1)));
}
