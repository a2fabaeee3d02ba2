use super::*;

/// † Neither during a call, nor while a release is unfinished, nor for a lock whose wait its caller has just dropped.
#[test]
fn an_owner_is_not_used_again_while_a_call_in_its_name_is_unanswered() {
    let mut rig = Rig::open();
    let task = Arc::new(TaskOwner::default());
    *lock(&task) = Some("o".into());
    let mut claim = Claim::new(terms("k", S), CancellationToken::new(), 0);
    claim.task = Some(task);
    let is_usable = |state: &State| state.usable_owner(&claim).is_some();
    assert!(is_usable(&rig.state));
    rig.state.begin_call(&name("other"));
    assert!(!is_usable(&rig.state));
    rig.state.end_call(&name("other"));
    let id = rig.in_line("k");
    assert!(is_usable(&rig.state));
    rig.state[id].caller.given_up.cancel();
    assert!(!is_usable(&rig.state));
    rig.state.remove(id);
    rig.state.give_back(0, (name("other"), 0));
    assert!(!is_usable(&rig.state));
}

/// † After a call without a reply, a reported loss, and giving up a wait. What it holds keeps its owner.
#[test]
fn a_task_continues_with_a_fresh_owner() {
    let endings: [fn(&mut Rig, Asked); 5] = [
        |rig, asked| rig.answered(&asked, no_reply()),
        |rig, asked| {
            rig.answered(&asked, Ok(int(0)));
            rig.state.give_up(asked.id);
            let reply = rig.said(Ok(int(0)), false);
            let _ = rig.state.cancelled(asked.id, &reply);
        },
        |rig, asked| {
            rig.answered(&asked, grant(50, 10_000));
            rig.poll(9000, 0, vec![lost("k", 50)]);
        },
        |rig, asked| {
            rig.answered(&asked, grant(50, 10_000));
            rig.release(asked.id, Ok(int(0)), true).expect("released");
        },
        |rig, asked| {
            rig.answered(&asked, grant(50, 10_000));
            let reply = rig.said(no_reply(), false);
            let confirmed = rig.state.confirmed(asked.id, &reply);
            is(confirmed, ErrorKind::Unavailable);
        },
    ];
    for ending in endings {
        let mut rig = Rig::open();
        let task = Arc::new(TaskOwner::default());
        *lock(&task) = Some("o".into());
        let id = rig.ask_for(Some(&task), terms("k", 5 * S)).expect("asked");
        let asked = rig.sent(id);
        ending(&mut rig, asked);
        assert_eq!(*lock(&task), None);
        assert_eq!(&*rig.state[id].name.owner, "o");
    }
}

/// In a new session grants are moved first, then the waits ask again, then come unfinished releases.
#[test]
fn waits_are_queued_again_in_their_order() {
    let mut rig = Rig::open();
    let waits = [rig.in_line("c"), rig.in_line("a"), rig.in_line("b")];
    rig.held("k");
    rig.state.give_back(0, (name("z"), 0));
    rig.end_session();
    let (refused, loading) = (says("NOPERM x"), says("LOADING x"));
    let replies = [refused, Ok(int(1)), no_reply(), loading, no_reply()];
    let sent = rig.at(101.0).apply(&replies);
    let order = [
        "LOCK.RENEW k o TOKEN 50 SESSION 8",
        "LOCK.ACQUIRE c",
        "LOCK.ACQUIRE a",
        "LOCK.ACQUIRE b",
        "LOCK.RELEASE z",
    ];
    for (command, begin) in sent.iter().zip(order) {
        assert!(command.starts_with(begin), "{sent:?}");
    }
    assert_eq!(rig.state[waits[0]].session, 8);
    assert_eq!(rig.state[waits[1]].session, 7);
    assert!(rig.state.calls.is_empty());
    let due = rig.state.due(0);
    assert!(due.len() == 4 && line(&due[1].0).starts_with("LOCK.ACQUIRE a"));
}

#[test]
fn a_place_counts_in_the_current_session_only() {
    let mut rig = Rig::open();
    let id = rig.asked("k").id;
    rig.again(id, 6, Ok(int(3)));
    rig.sent(id);
    rig.again(id, 7, says("NOSESSION x"));
    rig.rests(id);
    rig.end_session();
    rig.sent(id);
}

/// A grant that is unsure is handed to the user after the next POLL.
#[test]
fn a_grant_with_sure_zero_is_polled_once_more() {
    let mut rig = Rig::open();
    let id = rig.in_line("k");
    rig.at(101.0).poll(0, 1, vec![granted("k", 50)]);
    rig.rests(id);
    rig.at(102.0).poll(5000, 1, vec![]);
    rig.is_done(id);
}

/// An event whose number was seen is skipped; in a new session numbers start at 1.
#[test]
fn events_are_applied_once() {
    let mut rig = Rig::open();
    let id = rig.held("k");
    rig.poll(-1, 1, vec![lost("x", 1), lost("x", 2)]);
    rig.seen = 0;
    rig.poll(-1, 1, vec![lost("k", 50)]);
    rig.is_held(id);
    rig.end_session();
    rig.poll(-1, 1, vec![lost("k", 50)]);
    rig.is_lost(id, "deleted");
}

/// A place is cancelled unless the lock is held; a late grant is released unless a call in its name is under way.
#[test]
fn a_wait_that_is_over() {
    let mut rig = Rig::open();
    let id = rig.in_line("k");
    assert!(rig.state.give_up(id).is_some());
    let reply = rig.said(says("NOTHELD x"), false);
    let _ = rig.state.cancelled(id, &reply);
    rig.is_due(&[]);
    rig.again(id, 7, Ok(int(0)));
    rig.is_due(&["LOCK.RELEASE k o ALL"]);
    let held = rig.held("held");
    rig.again(held, 7, Ok(int(0)));
    rig.state.begin_call(&name("called"));
    let events = vec![
        granted("called", 60),
        granted("held", 50),
        granted("gone", 61),
        lost("gone", 61),
    ];
    rig.poll(5000, 1, events);
    rig.is_due(&["LOCK.RELEASE k o ALL"]);
    rig.is_held(held);
}

/// Nothing is kept of a wait that failed, once its cancel is answered. A late reply to its call gives back what it
/// brings.
#[test]
fn a_wait_that_is_forgotten() {
    let mut rig = Rig::open();
    let [lost, late] = ["lost", "late"].map(|key| rig.asked(key));
    rig.answered(&lost, no_reply());
    for asked in [&lost, &late] {
        if rig.state.give_up(asked.id).is_some() {
            let reply = rig.said(Ok(int(0)), false);
            let _ = rig.state.cancelled(asked.id, &reply);
            rig.state.end_call(&asked.name);
        }
        rig.state.remove(asked.id);
    }
    assert!(rig.state.names.is_empty() && rig.state.claims.is_empty());
    assert!(rig.state.unfinished.is_empty() && rig.state.calls.len() == 1);
    rig.answered(&late, grant(60, 10_000));
    assert!(rig.state.calls.is_empty());
    rig.is_due(&["LOCK.RELEASE late o ALL TOKEN 60"]);
}

/// A passing end asks again; the others are reported.
#[test]
fn ends_of_waits() {
    let ends = [
        ("timeout", ErrorKind::Busy),
        ("cancelled", ErrorKind::Busy),
        ("NOPERM x", ErrorKind::Refused),
    ];
    for (why, kind) in ends {
        let mut rig = Rig::open();
        let id = rig.in_line("k");
        rig.poll(-1, 0, vec![ended("k", why)]);
        is(rig.state.next_step(id), kind);
    }
    let mut rig = Rig::open();
    let id = rig.in_line("k");
    rig.poll(-1, 0, vec![ended("k", "MOVED 1 b:1")]);
    rig.sent(id);
}

/// The end of a place may be reported before the reply that names the place: then it is no place.
#[test]
fn an_end_before_the_reply_that_names_the_place() {
    let mut rig = Rig::open();
    let asked = rig.asked("k");
    rig.at(100.5).poll(-1, 0, vec![ended("k", "MOVED 1 b:1")]);
    rig.answered(&asked, Ok(int(0)));
    let again = rig.sent(asked.id);
    rig.answered(&again, Ok(int(0)));
    assert_eq!(rig.state[asked.id].phase, Phase::InLine);
}

/// The caller gives up one reply timeout after its time; asking without a reply takes a second at least, and its
/// pauses end with it.
#[test]
fn times_of_waits() {
    let mut rig = Rig::open();
    let id = rig.in_line("k");
    assert_eq!(rig.at(101.0).rests(id), 5 * S);
    is(rig.at(106.0).state.next_step(id), ErrorKind::Busy);
    let id = rig.ask(terms("now", Duration::ZERO));
    let claim = &rig.state[id];
    assert_eq!((claim.limit, claim.asked_end), (500 * MS, 107 * S));
    assert!(!line(&claim.acquire_command(7, 106 * S)).contains("QUEUE"));
    rig.sent(id);
    rig.again(id, 7, says("LOADING x"));
    assert_eq!(rig.state.pause(id, 700 * MS), 700 * MS);
    assert_eq!(rig.at(106.8).state.pause(id, 700 * MS), 200 * MS);
    let failure = is(rig.at(107.0).state.next_step(id), ErrorKind::Unavailable);
    assert!(failure.cause().contains("LOADING"), "{failure}");
    let id = rig.ask(terms("short", 5 * S));
    let later = 107 * S + Duration::from_micros(1); // rounded up: no wait is too short
    let command = line(&rig.state[id].acquire_command(7, later));
    assert!(command.ends_with("QUEUE 5000"), "{command}");
    let id = rig.ask(Terms {
        wait: None,
        ..terms("endless", S)
    });
    let command = line(&rig.state[id].acquire_command(7, later));
    assert!(command.ends_with("QUEUE 0"), "{command}");
}
