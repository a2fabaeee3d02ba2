//! The replies to a POLL, and their time.

use super::*;

/// When the wait of a POLL that arrived at zero ends, in microseconds.
fn wait_ends(sessions: &mut Sessions) -> u64 {
    poll(sessions, 1, Block::Forever, ms(0)).unwrap();
    assert_eq!(sessions.answer(id(1), ms(0)), None);
    let ends = sessions.next_poll_at().unwrap().0;
    assert_eq!(sessions.next_poll(at(ends - 1)), None);
    assert_eq!(sessions.next_poll(at(ends)), Some(id(1)));
    ends
}

#[test]
fn sure_ms_is_the_wait_plus_the_time_left_rounded_down() {
    let mut sessions = open(1, 60_000);
    assert_eq!(reply(&mut sessions, 1, ms(0)).sure_ms, -1, "no grant");
    join(&mut sessions, 1, 1, 30_000, ms(0));
    join(&mut sessions, 1, 2, 5000, ms(0));
    // The leases end half a millisecond sooner by the monotonic clock.
    assert_eq!(reply(&mut sessions, 1, ms(0)).sure_ms, 4999);
    assert_eq!(reply(&mut sessions, 1, ms(1)).sure_ms, 4998);
    poll(&mut sessions, 1, Block::Forever, ms(1000)).unwrap();
    assert_eq!(sessions.answer(id(1), ms(1000)), None);
    let grant = grant_of(&sessions, 2);
    sessions.renewed(&grant, end(5000, ms(2000)), ms(2000));
    let empty = sessions.answer_empty(id(1), at(2_300_400)).unwrap();
    assert_eq!(
        (empty.sure_ms, empty.grants, empty.events.len()),
        (1300 + 4699, 2, 0)
    );
    sessions.seen(name(2), Deadline::Never, ms(2500));
    assert_eq!(
        reply(&mut sessions, 1, ms(2500)).sure_ms,
        27_499,
        "the other one"
    );
    sessions.seen(name(1), Deadline::Never, ms(2500));
    assert_eq!(
        reply(&mut sessions, 1, ms(2500)).sure_ms,
        -1,
        "both are persistent"
    );
}

/// The wall clock was set back, and the next renewal may be the last one.
#[test]
fn sure_ms_is_no_more_than_the_shortest_lease() {
    let mut sessions = open(1, 60_000);
    join(&mut sessions, 1, 1, 30_000, ms(0));
    join(&mut sessions, 1, 2, 20_000, ms(0));
    let back = Now {
        unix: UnixTime::from_micros(WALL - 600_000_000),
        ..ms(0)
    };
    assert_eq!(reply(&mut sessions, 1, back).sure_ms, 19_999);
    sessions.seen(name(2), Deadline::Never, back);
    assert_eq!(reply(&mut sessions, 1, back).sure_ms, 29_999);
    sessions.released(name(1), None, back);
    assert_eq!(reply(&mut sessions, 1, back).sure_ms, -1);
}

#[test]
fn sure_ms_is_0_while_an_end_is_not_in_the_reply() {
    let mut sessions = open(1, 60_000);
    join(&mut sessions, 1, 1, 1000, ms(0));
    join(&mut sessions, 1, 2, 30_000, ms(0));
    poll(&mut sessions, 1, Block::Forever, ms(0)).unwrap();
    assert_eq!(sessions.answer(id(1), ms(0)), None);
    // It has waited for a second, but the lease is over.
    assert_eq!(sessions.answer_now(id(1), ms(1001)).unwrap().sure_ms, 0);
    assert_eq!(sessions.next_ended(ms(1001)).unwrap().name(), name(1));
    sessions.lost(name(1), LossReason::Expired, ms(1001));
    let told = reply(&mut sessions, 1, ms(1001));
    assert_eq!(
        (told.sure_ms, told.grants, numbers(&told)),
        (28_998, 1, vec![1])
    );
}

#[test]
fn sure_ms_is_0_while_events_are_not_in_the_reply() {
    let mut sessions = open(1, 60_000);
    join(&mut sessions, 1, 1, 30_000, ms(0));
    let kind = || EventKind::Ended("timeout".into());
    for _ in 0..2001 {
        sessions.report(id(1), &[1].into(), &owner(1), kind());
    }
    for (first, last, sure) in [(1, 1000, 0), (1001, 2000, 0), (2001, 2001, 29_999)] {
        let told = reply(&mut sessions, 1, ms(0));
        assert_eq!(told.sure_ms, sure);
        assert_eq!(numbers(&told), (first..=last).collect::<Vec<_>>());
    }
    assert_eq!(numbers(&reply(&mut sessions, 1, ms(0))), [0; 0]);
    sessions.report(id(1), &[1].into(), &owner(1), kind());
    poll(&mut sessions, 1, Block::No, ms(0)).unwrap();
    let empty = sessions.answer_empty(id(1), ms(0)).unwrap();
    assert_eq!((empty.sure_ms, empty.events.len()), (0, 0));
}

#[test]
fn a_wait_ends_after_15_s_or_half_the_timeout_or_a_third_of_what_is_left() {
    assert_eq!(wait_ends(&mut open(1, 86_400_000)), 15_000_000);
    assert_eq!(wait_ends(&mut open(1, 20_000)), 10_000_000);
    for (left, ends) in [
        (6000, 2_000_000),
        (1000, 333_333),
        (299, 100_000),
        (1, 100_000),
    ] {
        let mut sessions = open(1, 60_000);
        join(&mut sessions, 1, 2, 30_000, ms(0));
        join(&mut sessions, 1, 1, 1000, ms(0));
        sessions.seen(name(1), end(left, ms(0)), ms(0));
        assert_eq!(wait_ends(&mut sessions), ends);
    }
    let mut sessions = open(1, 60_000);
    poll(
        &mut sessions,
        1,
        Block::For(Duration::from_millis(70)),
        ms(0),
    )
    .unwrap();
    assert_eq!(sessions.answer(id(1), ms(0)), None);
    assert_eq!(sessions.next_poll_at(), Some(ms(70).monotonic));
    assert_eq!(sessions.answer(id(1), ms(70)).unwrap().sure_ms, -1);
}

#[test]
fn a_wait_ends_after_a_third_of_a_lease_that_joins_or_is_shortened() {
    let mut sessions = open(1, 60_000);
    join(&mut sessions, 1, 1, 40_000, ms(0));
    wait_ends(&mut sessions);
    join(&mut sessions, 1, 2, 9000, ms(1000));
    assert_eq!(sessions.next_poll_at(), Some(ms(4000).monotonic));
    sessions.changed(name(1), lease(6000), end(6000, ms(1500)), ms(1500));
    assert_eq!(sessions.next_poll_at(), Some(ms(3500).monotonic));
    sessions.changed(name(1), lease(6000), end(9000, ms(1500)), ms(1500));
    assert_eq!(
        sessions.next_poll_at(),
        Some(ms(3500).monotonic),
        "it is longer"
    );
    sessions.changed(name(1), lease(1500), end(9000, ms(2000)), ms(2000));
    assert_eq!(sessions.next_poll_at(), Some(ms(2500).monotonic));
}

#[test]
fn a_newer_connection_takes_over_and_an_older_one_never_gets_it_back() {
    let mut sessions = open(1, 60_000);
    poll(&mut sessions, 1, Block::Forever, ms(0)).unwrap();
    assert_eq!(sessions.answer(id(1), ms(0)), None);
    assert_eq!(poll(&mut sessions, 7, Block::Forever, ms(1)), Ok(Some(1)));
    assert_eq!(sessions.client_of(id(1)), Some(7));
    let refused = Err(PollRefusal::NewerConnection);
    assert_eq!(poll(&mut sessions, 1, Block::No, ms(2)), refused);
    assert_eq!(
        sessions.disconnected(1, ms(2)),
        [],
        "that is not its connection any more"
    );
    assert_eq!(sessions.disconnected(7, ms(2)), [id(1)]);
    assert_eq!(sessions.client_of(id(1)), None);
    assert_eq!(poll(&mut sessions, 6, Block::No, ms(3)), refused);
    assert_eq!(
        sessions.counts().detached,
        1,
        "a POLL that is refused attaches nothing"
    );
    assert_eq!(poll(&mut sessions, 8, Block::No, ms(3)), Ok(None));
    assert_eq!(sessions.counts().detached, 0);
    for (user, database) in [(b"x", 0), (b"u", 1)] {
        let other = sessions.poll(id(1), user, database, 9, Block::No, ms(4));
        assert_eq!(other, Err(PollRefusal::NoSession));
    }
}

#[test]
fn an_event_is_answered_until_the_same_connection_polls_again() {
    let mut sessions = open(1, 60_000);
    for number in 1..=2 {
        join(&mut sessions, 1, number, 30_000, ms(0));
        sessions.take_out(name(number));
    }
    assert_eq!(numbers(&reply(&mut sessions, 1, ms(1))), [1, 2]);
    assert_eq!(
        numbers(&reply(&mut sessions, 5, ms(2))),
        [1, 2],
        "another connection"
    );
    assert_eq!(
        poll(&mut sessions, 1, Block::No, ms(3)),
        Err(PollRefusal::NewerConnection)
    );
    assert_eq!(
        sessions.list(9, ms(3))[0].events,
        2,
        "a refused one acknowledges nothing"
    );
    poll(&mut sessions, 5, Block::Forever, ms(4)).unwrap();
    assert_eq!(sessions.answer(id(1), ms(4)), None, "they are acknowledged");
    join(&mut sessions, 1, 3, 30_000, ms(4));
    sessions.take_out(name(3));
    assert_eq!(
        sessions.next_poll(ms(4)),
        Some(id(1)),
        "a POLL that waits is answered at once"
    );
    assert_eq!(numbers(&sessions.answer(id(1), ms(4)).unwrap()), [3]);
    poll(&mut sessions, 6, Block::No, ms(5)).unwrap();
    assert!(
        sessions
            .answer_empty(id(1), ms(5))
            .unwrap()
            .events
            .is_empty()
    );
    assert_eq!(
        numbers(&reply(&mut sessions, 6, ms(6))),
        [3],
        "it was not answered"
    );
    poll(&mut sessions, 6, Block::Forever, ms(7)).unwrap();
    assert_eq!(sessions.answer(id(1), ms(7)), None);
    join(&mut sessions, 1, 4, 30_000, ms(7));
    sessions.take_out(name(4));
    sessions.detach(id(1));
    let told = reply(&mut sessions, 6, ms(8));
    assert_eq!(numbers(&told), [4], "the POLL before it was not answered");
}

#[test]
fn the_events_of_a_dropped_reply_are_sent_again() {
    let mut sessions = open(2, 60_000);
    let kind = || EventKind::Ended("timeout".into());
    sessions.report(id(1), &[1].into(), &owner(1), kind());
    assert_eq!(numbers(&reply(&mut sessions, 1, ms(0))), [1]);
    sessions.unanswered(2);
    assert_eq!(numbers(&reply(&mut sessions, 1, ms(1))), [0; 0]);
    sessions.report(id(1), &[1].into(), &owner(1), kind());
    assert_eq!(numbers(&reply(&mut sessions, 1, ms(2))), [2]);
    sessions.unanswered(1);
    assert_eq!(numbers(&reply(&mut sessions, 1, ms(3))), [2]);
    assert_eq!(numbers(&reply(&mut sessions, 1, ms(4))), [0; 0]);
}

#[test]
fn a_change_of_the_connections_user_is_not_a_sign_of_life() {
    let mut sessions = open(1, 2000);
    assert!(sessions.detach(id(1)));
    assert_eq!(sessions.next_timeout_at(), Some(ms(2500).monotonic));
    assert_eq!(sessions.disconnected(1, ms(1000)), []);
    assert_eq!(sessions.next_timeout_at(), Some(ms(2500).monotonic));
}

#[test]
fn a_session_ends_by_silence_and_not_by_a_stall() {
    let mut sessions = open(1, 2000);
    let timeouts = |sessions: &mut Sessions, now| {
        std::iter::from_fn(|| sessions.take_timeout(now)).collect::<Vec<_>>()
    };
    let (away, ended) = (Timeout::Away(id(1)), Timeout::Ended(id(1)));
    assert_eq!(timeouts(&mut sessions, ms(1000)), []);
    assert_eq!(timeouts(&mut sessions, at(1_000_001)), [away]);
    poll(
        &mut sessions,
        1,
        Block::For(Duration::from_secs(1)),
        ms(2100),
    )
    .unwrap();
    assert_ne!(sessions.presence(id(1)), Presence::Away);
    assert_eq!(sessions.answer(id(1), ms(2100)), None);
    assert_eq!(
        timeouts(&mut sessions, ms(50_000)),
        [],
        "while a POLL waits"
    );
    assert!(sessions.answer(id(1), ms(50_000)).is_some());
    sessions.stalled(Duration::from_secs(5));
    assert_eq!(timeouts(&mut sessions, ms(55_900)), []);
    assert_eq!(
        sessions.disconnected(1, ms(55_900)),
        [id(1)],
        "its close is heard"
    );
    assert_eq!(sessions.presence(id(1)), Presence::Away);
    assert_eq!(sessions.next_timeout_at(), Some(ms(58_400).monotonic));
    assert_eq!(timeouts(&mut sessions, at(58_399_999)), []);
    assert_eq!(timeouts(&mut sessions, ms(58_400)), [ended]);
    assert!(!sessions.is_open(id(1)));
    assert_eq!(sessions.counts().silent, 1);
}
