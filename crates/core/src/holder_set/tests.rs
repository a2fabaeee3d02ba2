//! Changes of the holders that fit, and that do not. The models of locks (`properties`) test their content.

use super::*;
use crate::{Grant, Holds, Lease, SharedChange, SharedStep};

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

#[test]
fn few_holders_share_one_allocation_and_many_are_in_trees() {
    let names: Vec<_> = (0..=FEW).map(|n| [u8::try_from(n).unwrap()]).collect();
    let is_few = |holders: &HolderSet| matches!(holders.0, Form::Few(_));
    let mut holders = HolderSet::one(&holder(&names[0], 1, 1, 0, 1));
    for (token, name) in (2..).zip(&names[1..]) {
        assert!(is_few(&holders));
        holders.put(&holder(name, token, token, 0, 1));
    }
    assert!(!is_few(&holders), "there is one more than few");
    let mut ended = holders.clone();
    while holders.count() > FEW_AGAIN {
        assert!(!is_few(&holders));
        assert!(holders.remove(holders.highest().unwrap()));
    }
    assert!(is_few(&holders));
    ended.remove_ended(Deadline::At(9));
    assert!(!is_few(&ended), "{}", ended.count());
    ended.remove_ended(Deadline::At(10));
    assert!(is_few(&ended), "{}", ended.count());
}

#[test]
fn a_change_for_another_lock_is_a_mismatch() {
    let lock = || {
        let mut holders = HolderSet::one(&holder(b"a", 1, 50, 0, 1));
        holders.put(&holder(b"b", 3, 60, 3, 1));
        holders
    };
    let put = |name: &'static [u8], token, count, latest_end| SharedChange {
        cap: None,
        step: SharedStep::Put(holder(name, token, 40, 3, 1)),
        count,
        latest_end,
        whole: false,
    };
    assert_eq!(put(b"c", 4, 3, 60).apply(Some(&mut lock())), Ok(None));
    for (change, why) in [
        (put(b"c", 4, 4, 60), "another number of holders"),
        (put(b"c", 4, 3, 61), "another end"),
        (put(b"a", 4, 3, 60), "an owner with another token"),
        (put(b"c", 3, 2, 60), "a token with another owner"),
        (put(b"c", 2, 3, 60), "a new token that is not the highest"),
        (put(b"b", 1, 2, 60), "an owner with a lower token"),
        (
            SharedChange {
                step: SharedStep::Put(holder(b"c", 4, 40, 2, 1)),
                ..put(b"c", 4, 3, 60)
            },
            "more than it allows",
        ),
    ] {
        assert!(change.apply(Some(&mut lock())).is_err(), "{why}");
        assert!(change.apply(None).is_err(), "{why}");
    }
}

#[test]
fn few_holders_take_little_more_memory_than_their_records() {
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
fn ten_thousand_holders_join_and_leave() {
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
