//! Properties of every history.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::history::{History, Operation};
use super::model::{Amount, Call, Lock, MAX_HOLDS, MICROS, Reply, TOKENS_END, Verb};
use super::system::System;

/// Runs a history. `check` gets each operation, the system before and after it, and the reply of a call.
pub(super) fn run(
    history: &History,
    mut check: impl FnMut(&System, Operation, Option<Reply>, &System) -> TestCaseResult,
) -> TestCaseResult {
    let mut system = System::like(&history.start);
    for step in &history.steps {
        let before = system.clone();
        let operation = step.at(&system);
        let reply = match operation {
            Operation::Call(call) => Some(system.call(call)),
            Operation::Event(event) => {
                system.apply(event);
                None
            }
        };
        check(&before, operation, reply, &system)?;
    }
    Ok(())
}

/// Adds the call and the system to a failure.
fn with_context(result: TestCaseResult, call: Call, system: &System) -> TestCaseResult {
    result.map_err(|error| TestCaseError::fail(format!("{error}: {call:?} in {system:?}")))
}

/// The rules give the replies and the states of the model.
pub(super) fn agree_with_the_model(history: &History) -> TestCaseResult {
    let mut model = history.start.clone();
    run(history, |before, operation, reply, after| {
        let expected = match operation {
            Operation::Call(call) => Some(model.call(call)),
            Operation::Event(event) => {
                model.apply(event);
                None
            }
        };
        prop_assert_eq!(reply, expected, "{:?} in {:?}", operation, before);
        prop_assert_eq!(
            after.locks(),
            &model.locks[..],
            "{:?} in {:?}",
            operation,
            before
        );
        prop_assert_eq!(after.seen(), model.seen, "{:?} in {:?}", operation, before);
        Ok(())
    })
}

/// Every call keeps the invariants of the contract.
pub(super) fn keep_the_invariants(history: &History) -> TestCaseResult {
    let mut highest = history.start.seen;
    run(history, |before, operation, reply, after| {
        prop_assert!(after.seen() >= before.seen(), "the token clock fell");
        if let (Operation::Call(call), Some(reply)) = (operation, reply) {
            let kept = keeps_the_invariants(before, call, reply, after, highest);
            with_context(kept, call, before)?;
        }
        // The highest token granted or seen so far.
        let tokens = after.locks().into_iter().flatten().map(|lock| lock.token);
        highest = tokens.fold(highest.max(after.seen()), u64::max);
        Ok(())
    })
}

/// A repeated call changes nothing more.
pub(super) fn are_repeatable(history: &History) -> TestCaseResult {
    run(history, |_, operation, reply, after| {
        let (Operation::Call(call), Some(reply)) = (operation, reply) else {
            return Ok(());
        };
        // At once, later, just before a lease ends, and with the wall clock set back.
        for later in [0, 1, 1_234_567, i64::MAX, -1, -3_600_000_000] {
            let time = after.now().saturating_add_signed(later);
            let then = after.moved_to(time.min(after.first_expiry()));
            with_context(can_be_repeated(&then, call, reply), call, &then)?;
        }
        Ok(())
    })
}

/// A call with the token of an ended grant does nothing.
pub(super) fn leave_later_grants_alone(history: &History) -> TestCaseResult {
    // Successful calls with TOKEN, and whether their grant has ended.
    let mut bound: Vec<(Call, bool)> = Vec::new();
    run(history, |before, operation, reply, after| {
        for (call, ended) in &mut bound {
            *ended |= before.lock(call.key).is_none();
            if *ended {
                with_context(is_refused(before, *call), *call, before)?;
            }
        }
        if let (Operation::Call(call), Some(reply)) = (operation, reply)
            && call.token.is_some()
            && !is_refusal(reply)
        {
            bound.push((call, after.lock(call.key).is_none()));
        }
        Ok(())
    })
}

const fn is_refusal(reply: Reply) -> bool {
    matches!(reply, Reply::Error(_) | Reply::Nil)
}

fn is_refused(system: &System, call: Call) -> TestCaseResult {
    let mut after = system.clone();
    let reply = after.call(call);
    prop_assert!(matches!(reply, Reply::Error(_)), "{:?}", reply);
    prop_assert_eq!(&after, system, "a refusal changed something");
    Ok(())
}

/// The invariants of one call; `highest` is the highest token before it.
fn keeps_the_invariants(
    before: &System,
    call: Call,
    reply: Reply,
    after: &System,
    highest: u64,
) -> TestCaseResult {
    if is_refusal(reply) {
        prop_assert_eq!(before, after, "a refusal changed something");
        return Ok(());
    }
    let (was, is) = (before.lock(call.key), after.lock(call.key));
    match reply {
        Reply::Grant {
            token,
            owner,
            holds,
            lease,
        } => {
            let grant = is.map(|lock| (lock.token, lock.owner, lock.holds, lock.lease));
            prop_assert_eq!(
                grant,
                Some((token, owner, holds, lease)),
                "the reply differs from the lock"
            );
            prop_assert_eq!(owner, call.owner, "another's grant");
        }
        Reply::Left(holds) => prop_assert_eq!(is.map_or(0, |lock| lock.holds), holds),
        Reply::Ok => prop_assert_eq!(is.map(|lock| lock.token), call.token, "fenced by another"),
        Reply::Nil | Reply::Error(_) => {}
    }
    let now = after.now() / MICROS;
    match (was, is) {
        (None, None) => prop_assert_eq!(before, after, "a free lock changed"),
        (None, Some(is)) => {
            let Verb::Acquire { px, holds } = call.verb else {
                return Err(TestCaseError::fail("only an acquire makes a lock"));
            };
            let re_enters = call.token.is_some() || holds.is_some_and(|wanted| wanted > 1);
            prop_assert!(!re_enters, "a re-entry made a lock");
            prop_assert!(is.token > highest, "a grant's token is not the highest");
            prop_assert!(is.token >= after.now(), "a token below the wall clock");
            prop_assert!(is.token < TOKENS_END, "a token above the highest");
            prop_assert_eq!(is.holds, 1);
            prop_assert_eq!(is.lease, px.unwrap_or(after.default_lease()));
            prop_assert_eq!(is.deadline, Some(now + is.lease));
            prop_assert_eq!(
                after.seen(),
                is.token,
                "the clock has not seen its own token"
            );
        }
        (Some(was), None) => {
            prop_assert!(
                matches!(call.verb, Verb::Release(_)),
                "only a release frees"
            );
            prop_assert_eq!(was.owner, call.owner, "another's lock freed");
            prop_assert!(
                call.token.is_none_or(|token| token == was.token),
                "another grant freed"
            );
        }
        (Some(was), Some(is)) => stays_a_grant(was, call, is, now)?,
    }
    if let Some(is) = is {
        let furthest = after.now() + after.max_lead() * MICROS;
        let raised = was.is_some_and(|was| is.token > was.token);
        let bounded = is.token <= furthest.max(before.seen());
        prop_assert!(bounded || !raised, "raised too far ahead");
        prop_assert!(
            after.seen() >= is.token,
            "the clock has not seen a held token"
        );
    }
    Ok(())
}

/// The invariants of a call before and after which the lock is held.
fn stays_a_grant(was: Lock, call: Call, is: Lock, now: u64) -> TestCaseResult {
    prop_assert_eq!(was.owner, is.owner, "a second owner");
    prop_assert!(
        (1..=MAX_HOLDS).contains(&is.holds),
        "a hold count out of range"
    );
    let never_shorter = is.lease >= was.lease
        && is
            .deadline
            .is_none_or(|end| was.deadline.is_some_and(|before| end >= before));
    let raise = match call.verb {
        Verb::Renew { raise, .. } => raise,
        _ => None,
    };
    let this_grant = call.token.is_none_or(|token| token == was.token) || raise == Some(was.token);
    prop_assert!(this_grant, "a call for another grant succeeded");
    prop_assert_eq!(
        is.token,
        raise.unwrap_or(was.token),
        "a grant's token changed"
    );
    prop_assert!(is.token >= was.token, "a grant's token fell");
    match call.verb {
        Verb::Acquire { holds, px } => {
            prop_assert!(never_shorter, "a re-entry shortened the lease");
            prop_assert_eq!(is.lease, was.lease.max(px.unwrap_or(0)));
            prop_assert!(is.deadline.is_none_or(|end| end >= now + is.lease));
            match holds {
                None => prop_assert_eq!(is.holds, was.holds + 1),
                Some(wanted) => {
                    prop_assert!(is.holds >= wanted, "fewer holds than wanted");
                    prop_assert_eq!(is.holds, was.holds.max(wanted));
                    prop_assert!(is.holds - was.holds <= 1, "lost holds were made up");
                }
            }
        }
        Verb::Release(amount) => {
            prop_assert!(never_shorter, "a partial release shortened the lease");
            prop_assert_eq!(is.lease, was.lease);
            match amount {
                Amount::One => prop_assert_eq!(is.holds, was.holds - 1),
                Amount::All => prop_assert!(false, "ALL left holds"),
                Amount::Holds(down_to) => prop_assert_eq!(is.holds, was.holds.min(down_to)),
            }
            if is.holds == was.holds {
                prop_assert_eq!(was, is, "a release of no holds changed something");
            } else {
                prop_assert!(is.deadline.is_none_or(|end| end >= now + is.lease));
            }
        }
        Verb::Renew { px, .. } => {
            prop_assert_eq!(is.holds, was.holds, "a renewal changed the holds");
            prop_assert_eq!(is.lease, px.unwrap_or(was.lease));
            prop_assert_eq!(is.deadline, Some(now + is.lease));
        }
        Verb::Fence => prop_assert_eq!(was, is, "a fence changed something"),
    }
    Ok(())
}

/// Repeats a call that got `reply`, after which only the wall clock has moved. If the call is of a
/// repeatable form, it changes at most the lease.
fn can_be_repeated(system: &System, call: Call, reply: Reply) -> TestCaseResult {
    let mut again = system.clone();
    let repeated = again.call(call);
    let (was, is) = (system.lock(call.key), again.lock(call.key));
    match (call.verb, reply) {
        (Verb::Acquire { holds: Some(_), .. } | Verb::Renew { .. }, Reply::Grant { .. })
            if call.token.is_some() || matches!(call.verb, Verb::Acquire { .. }) =>
        {
            prop_assert_eq!(repeated, reply);
            let deadline = is.and_then(|lock| lock.deadline);
            let expected = was.map(|was| Lock { deadline, ..was });
            prop_assert_eq!(is, expected, "more than the lease changed");
        }
        (Verb::Release(_), Reply::Left(0)) => {
            prop_assert_eq!(repeated, Reply::Error("NOTHELD"));
            prop_assert_eq!(&again, system);
        }
        (Verb::Release(Amount::Holds(_)), Reply::Left(_)) => {
            prop_assert_eq!(repeated, reply);
            prop_assert_eq!(&again, system, "a repeated release changed something");
        }
        // Refused, or each call counts.
        _ => return Ok(()),
    }
    prop_assert_eq!(again.seen(), system.seen(), "the token clock moved");
    Ok(())
}
