use super::*;

/// † A cancel, a stray, a late grant and a silent grant are released without the session.
#[test]
fn only_the_users_release_names_the_session() {
    let mut rig = Rig::open();
    let id = rig.held("k");
    let command = line(&rig.state[id].release_command());
    assert_eq!(command, "LOCK.RELEASE k o HOLDS 1 TOKEN 50 SESSION 7");
    let cancelled = rig.in_line("cancelled");
    rig.state.give_up(cancelled);
    let late = rig.asked("late");
    rig.state.give_up(late.id);
    rig.answered(&late, grant(60, 10_000));
    rig.poll(5000, 3, vec![granted("stray", 61)]);
    rig.at(112.0)
        .state
        .failed(0, at(111.0), &Error::unanswered("server", "timeout"));
    rig.is_lost(id, "silence");
    rig.is_due(&[
        "LOCK.RELEASE cancelled o ALL",
        "LOCK.RELEASE late o ALL TOKEN 60",
        "LOCK.RELEASE stray o ALL TOKEN 61",
        "LOCK.RELEASE k o ALL TOKEN 50",
    ]);
}

/// † GRANTS is due when every reply shows too many grants for a lease. Calls under way are no excuse.
#[test]
fn strays_are_released() {
    let mut rig = Rig::open();
    rig.held("k");
    rig.in_line("waiting");
    rig.state.begin_call(&name("called"));
    rig.poll(20_000, 2, vec![]);
    rig.at(109.0).is_due(&[]);
    rig.poll(20_000, 1, vec![]);
    rig.poll(20_000, 2, vec![]);
    rig.at(119.0).is_due(&[]);
    let due = rig.at(119.1).state.due(0);
    assert!(due.len() == 1 && line(&due[0].0) == "LOCK.SESSION GRANTS 7");
    rig.state.begin_call(&name("later"));
    let rows = ["k", "waiting", "called", "later", "stray"].map(|key| {
        let mut row = ["key", key, "owner", "o", "token"].map(word).to_vec();
        row.push(int(60));
        Value::Array(row)
    });
    let reply = rig.said(Ok(Value::Array(rows.to_vec())), false);
    for due in due {
        (due.1)(&mut rig.state, &reply);
    }
    rig.is_due(&["LOCK.RELEASE stray o ALL TOKEN 60"]);
    rig.poll(9000, 2, vec![]); // the unfinished release explains the second grant
    rig.at(130.0).is_due(&["LOCK.RELEASE stray o ALL TOKEN 60"]);
}

/// NOTHELD is a loss. After a try without a reply it means done, unless the loss was reported.
#[test]
fn a_release_that_finds_no_grant() {
    for (was_open, is_reported, reason) in [
        (false, false, "gone (NOTHELD)"),
        (true, false, ""),
        (true, true, "deleted"),
    ] {
        let mut rig = Rig::open();
        let id = rig.held("k");
        rig.state.begin_call(&name("k"));
        rig.state.release(id);
        if is_reported {
            rig.poll(-1, 0, vec![lost("k", 50)]);
        }
        let reply = rig.said(says("NOTHELD x"), was_open);
        let released = rig.state.released(id, &reply);
        let failure = released.map_or_else(|error| error.cause().to_owned(), |()| String::new());
        assert_eq!(failure, reason);
    }
    let mut rig = Rig::open();
    let id = rig.held("k");
    rig.set_holds(id, 2);
    is(rig.release(id, says("NOTHELD x"), true), ErrorKind::Lost);
}

/// An inner hold is left to the next release, because a re-entry may come between.
#[test]
fn the_release_of_the_last_hold_is_repeated() {
    let mut rig = Rig::open();
    let id = rig.held("k");
    rig.set_holds(id, 2);
    is(rig.release(id, no_reply(), true), ErrorKind::Unavailable);
    rig.is_due(&[]);
    is(rig.release(id, no_reply(), true), ErrorKind::Unavailable);
    rig.is_due(&["LOCK.RELEASE k o HOLDS 0 TOKEN 50 SESSION 7"]);
    is(rig.state[id].require_held(), ErrorKind::Misuse);
}

/// Grants move to a new session. The old one is closed 2 s later, when no known grant is in it.
#[test]
fn after_a_refused_release_the_session_is_left() {
    let mut rig = Rig::open();
    let (refused, other) = (rig.held("k"), rig.held("other"));
    let released = rig.release(refused, says("NOPERM x"), false);
    is(released, ErrorKind::Refused);
    rig.at(101.0).state.leave_session(0);
    assert_eq!(rig.state.nodes[0].session, 0);
    rig.state.opened(0, 8);
    let sent = rig.at(104.0).apply(&[grant(50, 10_000)]);
    assert_eq!(sent, ["LOCK.RENEW other o TOKEN 50 SESSION 8"]);
    rig.sure_till(other, 114.0);
    rig.at(103.0).is_due(&[]);
    rig.at(103.1).apply(&[no_reply()]);
    rig.is_due(&["LOCK.SESSION CLOSE 7"]);
    rig.apply(&[Ok(int(0))]);
    rig.is_due(&[]);
}

#[test]
fn the_session_is_left_for_a_last_hold_only() {
    let mut rig = Rig::open();
    let id = rig.held("k");
    rig.set_holds(id, 2);
    let released = rig.release(id, says("NOPERM x"), false);
    is(released, ErrorKind::Refused);
    for (token, reply) in [(0, "NOPERM x"), (50, "NOTHELD x")] {
        rig.state.give_back(0, (name("k"), token));
        rig.apply(&[says(reply)]);
        assert!(!rig.state.nodes[0].is_leaving && rig.state.unfinished.is_empty());
    }
    rig.state.give_back(0, (name("k"), 50));
    rig.apply(&[says("NOPERM x")]);
    assert!(rig.state.nodes[0].is_leaving);
}

/// A release that belongs to another node of the cluster is sent there by the loop, and forgotten.
#[test]
fn a_misplaced_release() {
    let mut rig = Rig::open();
    rig.state.give_back(0, (name("k"), 50));
    rig.apply(&[says("MOVED 1 b:1")]);
    rig.is_due(&[]);
    let misplaced = rig.state.misplaced.iter();
    let misplaced: Vec<_> = misplaced.map(|(_, command)| line(command)).collect();
    assert_eq!(misplaced, ["LOCK.RELEASE k o ALL TOKEN 50"]);
}

#[test]
fn close_ends_waits_and_grants() {
    let mut rig = Rig::open();
    let (wait, id) = (rig.in_line("k"), rig.held("held"));
    rig.state.changed.clear();
    let grants = rig.state.close();
    let [(of, 7, release)] = &grants[..] else {
        panic!("one grant of the session");
    };
    let command = "LOCK.RELEASE held o HOLDS 0 TOKEN 50 SESSION 7";
    assert_eq!((of, &*line(release)), (&name("held"), command));
    assert_eq!(rig.state.changed.len(), 2);
    for failure in [
        is(rig.state.next_step(wait), ErrorKind::Misuse),
        is(rig.state[id].require_held(), ErrorKind::Misuse),
        is(rig.ask_for(None, terms("other", S)), ErrorKind::Misuse),
    ] {
        assert!(failure.cause().contains("closed"), "{failure}");
    }
    assert!(rig.state.unfinished.is_empty());
}
