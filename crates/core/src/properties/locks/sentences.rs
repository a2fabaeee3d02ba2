//! Sentences of the contract that hold for every call of every history.

use std::collections::BTreeMap;

use super::history::KEYS;
use super::{Called, SideBySide};
use crate::model::lock::{
    Amount, Call, Event, Holder, Key, MAX_HOLDS, MICROS, Reply, Server, TOKENS_END, Verb,
};

/// Each sentence holds.
macro_rules! hold {
    ($($sentence:literal: $is_so:expr;)*) => {{
        $(assert!($is_so, "not so: {}", $sentence);)*
    }};
}

/// The holders of all locks, as every command tells them.
fn all_holders(server: &Server) -> BTreeMap<Key, Vec<Holder>> {
    KEYS.map(|key| (key, server.holders(key))).into()
}

const fn is_refusal(reply: Reply) -> bool {
    matches!(reply, Reply::Error(_) | Reply::Nil)
}

fn raise_of(call: Call) -> Option<u64> {
    match call.verb {
        Verb::Renew { raise, .. } => raise,
        _ => None,
    }
}

/// `highest` is the highest token that was granted or seen so far.
pub(super) fn keeps_the_invariants(called: &Called<'_>, highest: &mut u64) {
    let Called { call, reply, .. } = *called;
    let (before, after) = (&called.before.model, &called.after.model);
    let Call { key, owner, .. } = call;
    *highest = before.seen.max(*highest);
    hold! { "the token clock never falls": after.seen >= before.seen; }
    let (mut were, mut are) = (all_holders(before), all_holders(after));
    if is_refusal(reply) || matches!(call.verb, Verb::Fence) {
        assert_eq!(were, are, "a refusal changes nothing");
        assert_eq!(before.seen, after.seen, "a refusal changes nothing");
        return;
    }
    for all in [&mut were, &mut are] {
        let of_key = all.entry(key).or_default();
        of_key.retain(|holder| holder.owner != owner);
    }
    assert_eq!(were, are, "a call changes the caller's grant alone");
    let (was, is) = (before.holder(key, owner), after.holder(key, owner));
    match (was, is) {
        (Some(was), Some(is)) => stays_a_grant(called, was, is),
        (None, Some(is)) => is_a_new_grant(called, is, *highest),
        _ => hold! { "only a release ends a grant": matches!(call.verb, Verb::Release(_)); },
    }
    let reply_is_so = match (reply, is) {
        (
            Reply::Grant {
                token,
                holds,
                lease,
                limit,
            },
            Some(is),
        ) => (token, holds, lease, limit) == (is.token, is.holds, is.lease, is.limit),
        (reply, is) => reply == Reply::Left(is.map_or(0, |is| is.holds)),
    };
    let is_of = |was: Holder| call.token.is_none_or(|token| token == was.token);
    let holders = after.holders(key);
    let count = holders.len() as u64;
    let latest = holders.iter().map(|holder| holder.end).max();
    let expiry = after.locks.get(&key).map(|lock| lock.expiry);
    hold! {
        "the reply is the grant": reply_is_so;
        "TOKEN ties the call to its grant": was.is_none_or(|was| is_of(was) || raise_of(call) == Some(was.token));
        "no lock has more holders than one allows": holders.iter().all(|holder| count <= holder.limit);
        "the clock has seen every token": holders.iter().all(|holder| holder.token <= after.seen);
        "the lowest token is first": holders.is_sorted_by(|one, next| one.token < next.token);
        "a changed key lives as long as the last lease": was == is || expiry == latest;
    }
}

fn is_a_new_grant(called: &Called<'_>, is: Holder, highest: u64) {
    let after = &called.after.model;
    let Call {
        key, token, verb, ..
    } = called.call;
    let Verb::Acquire { holds, in_line, .. } = verb else {
        panic!("only an acquire makes a grant")
    };
    let room = after.settings.max_holders.max(1);
    hold! {
        "what re-enters makes no grant": token.is_none() && holds.is_none_or(|wanted| wanted == 1);
        "nobody passes the line": !in_line;
        "a new token is above every one before": is.token > highest && is.token == after.seen;
        "a token is not behind the clock": (after.now..TOKENS_END).contains(&is.token);
        "a new grant has one hold": is.holds == 1;
        "nobody has room beyond the setting": after.holders(key).len() as u64 <= room;
    }
}

/// The caller has held the lock before and does after the call.
fn stays_a_grant(called: &Called<'_>, was: Holder, is: Holder) {
    let (before, after) = (&called.before.model, &called.after.model);
    let furthest = after.now.saturating_add(after.settings.max_lead * MICROS);
    hold! {
        "a holder keeps its grant": was.grant == is.grant;
        "a hold count is 1 to 2^31 - 1": (1..=MAX_HOLDS).contains(&is.holds);
        "only a raise changes a token": is.token == raise_of(called.call).unwrap_or(was.token);
        "no token falls": is.token >= was.token;
        "none is raised far ahead of the time": is.token <= furthest.max(before.seen);
    }
    let never_shorter = is.lease >= was.lease && is.end >= was.end;
    match called.call.verb {
        Verb::Acquire { holds, .. } => hold! {
            "a re-entry never shortens": never_shorter;
            "a re-entry refreshes the lease": is.end >= after.millis() + is.lease;
            "a re-entry never widens the limit": is.limit <= was.limit;
            "lost holds are not made up": is.holds - was.holds <= 1;
            "a re-entry has the holds that it wants": is.holds >= holds.unwrap_or(was.holds + 1);
        },
        Verb::Release(_) => hold! {
            "a release never shortens": never_shorter && is.lease == was.lease;
            "a release never changes the limit": is.limit == was.limit;
            "a release of no holds changes nothing": is.holds < was.holds || is == was;
        },
        Verb::Renew { raise, .. } => hold! {
            "a renewal starts the lease now": is.end == after.millis() + is.lease;
            "a renewal never changes the holds": is.holds == was.holds;
            "a grant with several holds is not widened": is.limit <= was.limit || is.holds == 1;
            "a grant that may be shared is not raised": raise.is_none() || is.limit == 1;
        },
        Verb::Fence => unreachable!("it changes nothing"),
    }
}

/// A call whose reply was lost can be repeated: at once, later, just before a lease ends, and after the wall clock was
/// set back. The repetition changes at most the lease.
pub(super) fn can_be_repeated(called: &Called<'_>) {
    let Called {
        call, reply, after, ..
    } = *called;
    let is_repeatable = match (call.verb, reply) {
        (Verb::Acquire { holds, .. }, Reply::Grant { .. }) => holds.is_some(),
        (Verb::Renew { .. }, Reply::Grant { .. }) | (Verb::Release(_), Reply::Left(0)) => true,
        (Verb::Release(amount), Reply::Left(_)) => amount != Amount::One,
        _ => false,
    };
    if !is_repeatable {
        return;
    }
    let ends = after
        .model
        .holders(call.key)
        .into_iter()
        .map(|holder| holder.end);
    let last = ends.min().unwrap_or(u64::MAX).saturating_mul(MICROS);
    for later in [0, 1, 1_234_567, i64::MAX, -1, -3_600_000_000] {
        let then = after.model.now.saturating_add_signed(later).min(last);
        let mut again = after.clone();
        again.apply(&Event::Clock(then));
        is_done_again(&mut again, call, reply);
    }
}

fn is_done_again(both: &mut SideBySide, call: Call, reply: Reply) {
    let was = both.model.clone();
    let repeated = both.call(call);
    let is = &both.model;
    assert_eq!(is.seen, was.seen, "the token clock moved");
    let mine = was.holder(call.key, call.owner);
    let Some(mine) = mine else {
        assert!(
            matches!(repeated, Reply::Error("NOTHELD" | "NOTOWNER")),
            "{repeated:?}"
        );
        assert_eq!(all_holders(is), all_holders(&was));
        return;
    };
    assert_eq!(repeated, reply);
    let is = is.holder(call.key, call.owner).expect("a holder");
    let end = if matches!(call.verb, Verb::Release(_)) {
        mine.end
    } else {
        is.end
    };
    assert_eq!(is, Holder { end, ..mine }, "more than the lease changed");
}

/// A call with the token of a grant that has ended does nothing. `bound` contains the successful calls with a token,
/// and their grants.
///
/// Calls on shared grants are left out. A raise can give the last holder of a lock the token of a shared grant that has
/// ended, because tokens do not order grants that existed at the same time.
pub(super) fn leaves_later_grants_alone(called: &Called<'_>, bound: &mut Vec<(Call, u64)>) {
    let before = called.before;
    for (call, grant) in &*bound {
        let holders = before.model.holders(call.key);
        if holders.iter().all(|holder| holder.grant != *grant) {
            let mut late = before.clone();
            let reply = late.call(*call);
            assert!(matches!(reply, Reply::Error(_)), "{reply:?}");
            assert_eq!(all_holders(&late.model), all_holders(&before.model));
            assert_eq!(late.model.seen, before.model.seen);
        }
    }
    let Called {
        call, reply, after, ..
    } = *called;
    if call.token.is_none() || is_refusal(reply) {
        return;
    }
    let holder = |both: &SideBySide| both.model.holder(call.key, call.owner);
    let mut holders = after.model.holders(call.key).into_iter();
    let grant = match call.verb {
        Verb::Fence => holders.find(|holder| Some(holder.token) == call.token),
        _ => holder(after).or(holder(before)),
    };
    let grant = grant.expect("a grant").grant;
    if let Some(raised) = raise_of(call) {
        let names = |other: &Call| other.token == Some(raised) || raise_of(*other) == Some(raised);
        bound.retain(|(other, of)| *of == grant || other.key != call.key || !names(other));
    }
    bound.push((call, grant));
}
