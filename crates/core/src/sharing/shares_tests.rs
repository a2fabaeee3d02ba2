//! The shares beside a plain list of them, across the bounds between the two forms.

use proptest::prelude::*;

use super::*;
use crate::sharing::{ShareChange, Step};
use crate::{Grant, Holds, Lease};

fn names() -> Vec<Vec<u8>> {
    (0..60_u8)
        .map(|n| vec![n; 1 + usize::from(n % 4)])
        .collect()
}

fn share(name: &[u8], token: u64, end: u64, limit: u32, holds: u32) -> Share<'_> {
    Share {
        owner: Owner::new(name).unwrap(),
        grant: Grant {
            token: Token::new(token).unwrap(),
            holds: Holds::new(holds).unwrap(),
            lease: Lease::from_millis(1 + end).unwrap(),
        },
        limit: Limit::new(limit).unwrap(),
        end,
    }
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Put(usize, u64, u32, u32),
    Remove(usize),
    RemoveEnded(u64),
    Cut(u64),
}

fn acts() -> impl Strategy<Value = Act> {
    let limits = prop_oneof![2 => Just(0), 1 => 1..4_u32];
    prop_oneof![
        30 => (0..60_usize, 0..1000_u64, limits, 1..3_u32)
            .prop_map(|(n, end, limit, holds)| Act::Put(n, end, limit, holds)),
        15 => (0..60_usize).prop_map(Act::Remove),
        1 => (0..400_u64).prop_map(Act::RemoveEnded),
        1 => (500..1000_u64).prop_map(Act::Cut),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 96 }))]

    #[test]
    fn the_shares_agree_with_a_list(acts in prop::collection::vec(acts(), 1..200)) {
        let names = names();
        let first = share(&names[0], 1, 0, 0, 1);
        let (mut shares, mut list) = (Shares::one(&first), vec![first]);
        for (token, act) in (2..).zip(acts) {
            match act {
                Act::Put(n, end, limit, holds) => {
                    let owner = Owner::new(&names[n]).unwrap();
                    let present = list.iter().position(|share| share.owner == owner);
                    let token = present.map_or(token, |at| list[at].grant.token.number());
                    let share = share(&names[n], token, end, limit, holds);
                    shares.put(&share);
                    match present {
                        Some(at) => list[at] = share,
                        None => list.push(share),
                    }
                }
                Act::Remove(n) => {
                    let owner = Owner::new(&names[n]).unwrap();
                    let share = shares.of(owner);
                    let token = share.map_or(Token::MAX, |share| share.grant.token);
                    let removed = list.iter().position(|share| share.owner == owner);
                    prop_assert_eq!(shares.remove(token), removed.is_some());
                    removed.map(|at| list.remove(at));
                }
                Act::RemoveEnded(before) => {
                    let mut ended: Vec<_> =
                        shares.ended(before).map(|share| share.grant.token).collect();
                    ended.sort();
                    let gone = list.iter().filter(|share| share.end < before);
                    let gone: Vec<_> = gone.map(|share| share.grant.token).collect();
                    prop_assert_eq!(ended, gone);
                    shares.remove_ended(before);
                    list.retain(|share| share.end >= before);
                }
                Act::Cut(at) => {
                    shares.cut(at);
                    for share in &mut list {
                        share.end = share.end.min(at);
                    }
                }
            }
            prop_assert_eq!(shares.iter().collect::<Vec<_>>(), list.clone());
            prop_assert_eq!(shares.count(), list.len());
            let ends = || list.iter().map(|share| share.end);
            prop_assert_eq!(shares.next_end(), ends().min().unwrap_or_default());
            prop_assert_eq!(shares.latest_end(), ends().max().unwrap_or_default());
            let least = list.iter().map(|share| share.limit).min();
            prop_assert_eq!(shares.least_limit(), least.unwrap_or(Limit::NONE));
            for (n, name) in names.iter().enumerate() {
                let owner = Owner::new(name).unwrap();
                let there = list.iter().find(|share| share.owner == owner).copied();
                prop_assert_eq!(shares.of(owner), there, "{}", n);
                if let Some(share) = there {
                    let token = share.grant.token;
                    prop_assert_eq!(shares.with(token), there);
                    let others = list.iter().filter(|share| share.grant.token != token);
                    prop_assert_eq!(
                        shares.latest_end_without(Some(token)),
                        others.map(|share| share.end).max()
                    );
                }
            }
            let few = matches!(shares.0, Form::Few(_));
            let fits = if few { list.len() <= FEW } else { list.len() > FEW_AGAIN };
            prop_assert!(fits, "{} shares, few: {}", list.len(), few);
            let rewritten = shares.rewrite().try_fold(None, |made: Option<Shares>, change| {
                let mut made = made;
                Ok(match change.apply(made.as_mut())? {
                    Some(new) => Some(new),
                    None => made,
                })
            });
            if !list.is_empty() && least > Some(Limit::ONE) && least.unwrap().bears(list.len()) {
                prop_assert_eq!(rewritten, Ok::<_, crate::sharing::Mismatch>(Some(shares.clone())));
            }
        }
    }
}

#[test]
fn a_change_made_for_another_lock_is_found_out() {
    let lock = || {
        let mut shares = Shares::one(&share(b"a", 1, 50, 0, 1));
        shares.put(&share(b"b", 2, 60, 3, 1));
        shares
    };
    let put = |name: &'static [u8], token, count, latest_end| ShareChange {
        cut: None,
        step: Step::Put(share(name, token, 40, 3, 1)),
        count,
        latest_end,
        whole: false,
    };
    assert_eq!(put(b"c", 3, 3, 60).apply(Some(&mut lock())), Ok(None));
    for (change, why) in [
        (put(b"c", 3, 4, 60), "another number of shares"),
        (put(b"c", 3, 3, 61), "another end"),
        (put(b"a", 3, 3, 60), "an owner with another token"),
        (put(b"c", 2, 2, 60), "a token with another owner"),
        (put(b"b", 1, 2, 60), "an owner with a lower token"),
        (
            ShareChange {
                step: Step::Put(share(b"c", 3, 40, 2, 1)),
                ..put(b"c", 3, 3, 60)
            },
            "more than it bears",
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
    assert_eq!(Shares::one(&share(&owner, 1, 50, 0, 1)).memory(), 46 + 14);
    assert!(std::mem::size_of::<Shares>() <= 24);
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn ten_thousand_shares_come_and_go() {
    let names: Vec<_> = (0..10_000_u32).map(|n| format!("owner:{n:030}")).collect();
    let mut shares = Shares::one(&share(b"first", 1, 7, 0, 1));
    for (token, name) in (2..).zip(&names) {
        shares.put(&share(name.as_bytes(), token, 1000 + token, 0, 1));
    }
    let each = shares.memory() / shares.count();
    assert!(each < 190, "{each} bytes for a share");
    for name in names.iter().rev() {
        let token = shares
            .of(Owner::new(name.as_bytes()).unwrap())
            .unwrap()
            .grant
            .token;
        assert!(shares.remove(token));
    }
    assert_eq!(shares, Shares::one(&share(b"first", 1, 7, 0, 1)));
}
