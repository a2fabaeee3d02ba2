//! Each holder is for itself: owner, token, hold count, lease and deadline. Also what these tests ask of a
//! server.

use redis::Connection;
use testbed::{Expect, Grant, Server, cmd, owners, run, started};

/// An entry of `LOCK.HOLDERS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) owner: Vec<u8>,
    pub(crate) token: i64,
    pub(crate) holds: i64,
    pub(crate) lease_ms: i64,
    pub(crate) ttl_ms: i64,
    pub(crate) held_ms: i64,
    pub(crate) limit: i64,
}

/// Who holds this lock, by `LOCK.HOLDERS`.
#[track_caller]
pub(crate) fn holders_of(c: &mut Connection, key: &str) -> Vec<Holder> {
    let holders = cmd!(*c, "LOCK.HOLDERS", key).items();
    let holder = |entry: redis::Value| {
        let mut fields = entry.fields();
        let mut take = |name: &str| fields.remove(name).unwrap_or_else(|| panic!("no {name}"));
        let holder = Holder {
            owner: take("owner").bytes(),
            token: take("token").int(),
            holds: take("holds").int(),
            lease_ms: take("lease-ms").int(),
            ttl_ms: take("ttl-ms").int(),
            held_ms: take("held-ms").int(),
            limit: take("limit").int(),
        };
        assert_eq!(take("session").int(), 0);
        assert!(fields.is_empty(), "more fields: {fields:?}");
        holder
    };
    holders.into_iter().map(holder).collect()
}

/// Owner, token, hold count, lease and limit.
pub(crate) type Lasting = (Vec<u8>, i64, i64, i64, i64);

/// What does not change with time.
pub(crate) fn lasting(holders: &[Holder]) -> Vec<Lasting> {
    let lasting = |h: &Holder| (h.owner.clone(), h.token, h.holds, h.lease_ms, h.limit);
    holders.iter().map(lasting).collect()
}

/// Who holds `k`.
#[track_caller]
pub(crate) fn holders(c: &mut Connection) -> Vec<Holder> {
    holders_of(c, "k")
}

/// This owner's entry of `k`.
#[track_caller]
pub(crate) fn holder(c: &mut Connection, owner: &str) -> Holder {
    let mut holders = holders(c).into_iter();
    let found = holders.find(|holder| holder.owner == owner.as_bytes());
    found.unwrap_or_else(|| panic!("no {owner}"))
}

/// A share of `k` for ten minutes, by `LOCK.ACQUIRE k` and these words.
#[track_caller]
pub(crate) fn enter(c: &mut Connection, words: &str) -> Grant {
    run(c, &format!("LOCK.ACQUIRE k {words} PX 600000")).grant()
}

/// A server on which these owners share `k` with these words.
#[track_caller]
pub(crate) fn shared<const N: usize>(
    owners: [&str; N],
    how: &str,
) -> (Server, Connection, [Grant; N]) {
    let (server, mut c) = started();
    let grants = owners.map(|owner| enter(&mut c, &format!("{owner} {how}")));
    (server, c, grants)
}

#[test]
fn a_new_holder_has_one_hold_and_a_token_of_its_own_higher_than_any_before() {
    let (_server, mut c, grants) = shared(["a", "b", "d"], "SHARED");
    assert!(grants.is_sorted_by(|one, next| one.token < next.token));
    assert!(grants.iter().all(|grant| grant.holds == 1));
    let told = holders(&mut c);
    let tokens: Vec<_> = told.iter().map(|holder| holder.token).collect();
    assert_eq!(tokens, grants.each_ref().map(|grant| grant.token));
    assert_eq!(owners(&mut c), ["a", "b", "d"]);
}
