//! Grants, their losses and releases.

use super::*;

#[test]
fn a_lease_is_held_during_its_last_millisecond() {
    let mut sessions = open(1, 60_000);
    join(&mut sessions, 1, 1, 1000, ms(0));
    assert_eq!(sessions.next_ended(at(1_000_499)), None);
    assert!(sessions.next_ended(at(1_000_500)).is_some());
    assert_eq!(reply(&mut sessions, 1, at(1_000_499)).sure_ms, 0);
}

#[test]
fn a_grant_is_renewed_after_a_third_while_its_session_is_attached() {
    let mut sessions = open(1, 60_000);
    join(&mut sessions, 1, 1, 9000, ms(0));
    assert_eq!(sessions.next_due(at(2_999_999)), None);
    assert_eq!(sessions.next_due(ms(3000)).unwrap().name(), name(1));
    let grant = grant_of(&sessions, 1);
    assert_eq!(
        sessions.next_due(ms(3000)),
        Some(grant.clone()),
        "until it is answered"
    );
    sessions.not_renewed(&grant, ms(3000));
    assert_eq!(sessions.next_due(ms(3000)), None);
    assert_eq!(
        sessions.next_due_at(),
        Some(ms(3300).monotonic),
        "it was not renewed"
    );
    sessions.renewed(&grant, end(9000, ms(3100)), ms(3100));
    assert_eq!(sessions.next_due_at(), Some(ms(6100).monotonic));
    sessions.disconnected(1, ms(4000));
    assert_eq!(sessions.next_due_at(), None);
    assert_eq!(sessions.next_due(ms(7000)), None);
    assert_eq!(sessions.next_due_of_lock(0, b"k", ms(7000)), None);
    poll(&mut sessions, 2, Block::No, ms(7000)).unwrap();
    assert!(sessions.next_due_of(id(1), ms(7000)).is_some());
    sessions.seen(name(1), Deadline::Never, ms(7000));
    assert_eq!(
        sessions.next_due_at(),
        Some(ms(7300).monotonic),
        "a look, not a renewal"
    );
    sessions.seen(name(1), end(20_000, ms(7300)), ms(7300));
    assert_eq!(
        sessions.next_due_at(),
        Some(ms(10_300).monotonic),
        "the third is counted anew"
    );
    sessions.seen(name(1), end(4000, ms(7400)), ms(7400));
    assert_eq!(
        sessions.next_due_at(),
        Some(ms(10_300).monotonic),
        "PEXPIRE stands until then"
    );
    assert_eq!(sessions.counts().renewals, 1);
}

#[test]
fn a_release_is_no_loss_for_the_session_that_it_names() {
    let mut sessions = open(2, 60_000);
    for number in 1..=4 {
        join(&mut sessions, 1, number, 30_000, ms(0));
    }
    sessions.released(name(1), Some(id(1)), ms(0));
    sessions.given_back(name(2));
    sessions.released(name(3), Some(id(2)), ms(0));
    sessions.released(name(4), None, ms(0));
    let kinds = reply(&mut sessions, 1, ms(0)).events.into_iter();
    let kinds: Vec<_> = kinds
        .map(|Event { kind, owner, .. }| (kind, owner))
        .collect();
    let lost = |number| {
        let reason = LossReason::Released;
        let token = token(number);
        (EventKind::Lost { token, reason }, owner(number))
    };
    assert_eq!(kinds, [lost(3), lost(4)]);
    assert_eq!((sessions.counts().losses, sessions.counts().grants), (2, 0));
}

#[test]
fn grants_of_closed_sessions_are_released_before_a_command_on_their_lock() {
    let mut sessions = open(3, 60_000);
    for number in 1..=30 {
        join(&mut sessions, number % 3 + 1, number, 30_000, ms(0));
    }
    for number in [2, 1] {
        let closed = sessions.close(id(number)).unwrap();
        assert_eq!((closed.grants, closed.waiting), (10, None));
    }
    assert!(sessions.close(id(2)).is_none());
    assert_eq!(sessions.counts().grants, 10);
    assert_eq!(sessions.take_to_release_of(0, b"other"), None);
    let released = std::iter::from_fn(|| sessions.take_to_release_of(0, b"k"));
    let mut released: Vec<_> = released.map(|grant| grant.token.number() % 3 + 1).collect();
    released.sort_unstable();
    assert_eq!(released, [vec![1; 10], vec![2; 10]].concat());
    assert_eq!(sessions.take_to_release(), None);
    assert!(!sessions.has_to_release());
    assert_eq!(sessions.session_of(name(3)), None);
    assert_eq!(sessions.session_of(name(5)), Some(id(3)));
}

#[test]
fn unfiled_grants_are_not_missed() {
    let mut sessions = open(2, 60_000);
    let may_have_due = |sessions: &Sessions, at| sessions.may_have_due(ms(at).monotonic);
    for number in 1..=1200 {
        join(&mut sessions, 1, number, 30_000, ms(number));
        assert!(!may_have_due(&sessions, 10_000));
        assert!(may_have_due(&sessions, 10_001));
    }
    join(&mut sessions, 2, 2000, 3000, ms(1200));
    assert!(!may_have_due(&sessions, 2199));
    assert!(may_have_due(&sessions, 2200));
    sessions.check();
    assert_eq!(grants_of(&sessions, 1).len(), 1200);
    for number in 1..=1200 {
        sessions.released(name(number), Some(id(1)), ms(1200));
    }
    sessions.released(name(2000), Some(id(2)), ms(1200));
    sessions.check();
    assert_eq!(
        (sessions.next_due_at(), sessions.next_end_at()),
        (None, None)
    );
    sessions.file_grants();
    assert!(!may_have_due(&sessions, 20_000));
    join(&mut sessions, 1, 3000, 30_000, ms(1200));
    assert_eq!(sessions.close(id(1)).unwrap().grants, 1);
    assert!(may_have_due(&sessions, 1200));
}

#[test]
fn a_session_is_full_at_10_000_events_and_still_reports() {
    let mut sessions = open(1, 60_000);
    for number in 1..=10_001 {
        join(&mut sessions, 1, number, 30_000, ms(0));
    }
    for number in 1..=10_000 {
        assert!(!sessions.is_full(id(1)));
        sessions.lost(name(number), LossReason::Deleted, ms(0));
    }
    assert!(sessions.is_full(id(1)));
    sessions.lost(name(10_001), LossReason::Deleted, ms(0));
    assert_eq!(sessions.list(1, ms(0))[0].events, 10_001);
    for _ in 0..2 {
        reply(&mut sessions, 1, ms(0));
    }
    assert_eq!(sessions.list(1, ms(0))[0].events, 9001);
    assert!(!sessions.is_full(id(1)));
}

#[test]
fn ids_and_timeouts_have_their_ranges() {
    use crate::sessions::SessionId;
    for (number, is_one) in [
        (0, false),
        (1, true),
        ((1 << 53) - 1, true),
        (1 << 53, false),
    ] {
        let id = SessionId::new(number);
        assert_eq!(id.map(SessionId::number), is_one.then_some(number));
    }
    for (millis, is_one) in [
        (999, false),
        (1000, true),
        (86_400_000, true),
        (86_400_001, false),
    ] {
        let timeout = SessionTimeout::from_millis(millis);
        assert_eq!(
            timeout.map(SessionTimeout::millis),
            is_one.then_some(millis)
        );
    }
    let reasons = [
        LossReason::Expired,
        LossReason::Evicted,
        LossReason::Flushed,
        LossReason::Released,
    ];
    let words = reasons.map(LossReason::word);
    assert_eq!(words, ["expired", "evicted", "flushed", "released"]);
    assert_eq!(LossReason::Deleted.word(), "deleted");
}

#[test]
fn a_flush_is_reported_in_parts_and_first_for_a_lock_that_is_about_to_be_granted() {
    let mut sessions = open(1, 60_000);
    for number in 1..=4 {
        join(&mut sessions, 1, number, 30_000, ms(0));
    }
    sessions.flushed(Some(1), LossReason::Flushed);
    assert!(!sessions.has_flushed(), "another database");
    sessions.flushed(None, LossReason::Flushed);
    assert!(sessions.report_flushed(1, ms(1)));
    let told = reply(&mut sessions, 1, ms(1));
    assert_eq!((told.sure_ms, told.grants, numbers(&told)), (0, 3, vec![1]));
    sessions.report_flushed_of(0, b"other", ms(2));
    assert_eq!(sessions.counts().losses, 1);
    // The renewal finds it gone.
    let grant = sessions.next_due(ms(20_000)).expect("a grant");
    sessions.lost(grant.name(), LossReason::Deleted, ms(20_000));
    sessions.report_flushed_of(0, b"k", ms(20_000));
    join(&mut sessions, 1, 5, 30_000, ms(20_000));
    let told = reply(&mut sessions, 1, ms(20_000));
    assert_eq!(
        (told.sure_ms, told.grants, numbers(&told)),
        (0, 1, vec![2, 3, 4])
    );
    let reason = |event: &Event| match event.kind {
        EventKind::Lost { reason, .. } => Some(reason),
        _ => None,
    };
    let flushed = |event| reason(event) == Some(LossReason::Flushed);
    assert!(told.events.iter().all(flushed), "{told:?}");
    assert!(!sessions.report_flushed(10, ms(20_000)));
    let told = reply(&mut sessions, 1, ms(20_000));
    assert_eq!(
        (told.sure_ms, told.grants),
        (29_999, 1),
        "a later one stays"
    );
    sessions.check();
}
