use super::*;

/// † `sure` moves to the sending of the POLL plus sure-ms (-1: the lease), in this session only.
#[test]
fn a_poll_counts_for_grants_of_its_session() {
    let mut rig = Rig::open();
    let id = rig.held("k");
    rig.at(109.0).poll(5000, 1, vec![]);
    rig.sure_till(id, 114.0);
    rig.at(110.0).poll(1000, 1, vec![]);
    rig.sure_till(id, 114.0);
    rig.at(111.0).poll(-1, 1, vec![]);
    rig.sure_till(id, 121.0);
    rig.end_session();
    rig.at(115.0).poll(9000, 1, vec![]);
    rig.sure_till(id, 121.0);
}

/// † A grant that was learned later, or has another token now, may have been lost before.
#[test]
fn a_poll_counts_for_grants_that_were_known_when_it_was_sent() {
    let mut rig = Rig::open();
    let sent = rig.begin();
    let id = rig.held("k");
    rig.at(109.0).reply(sent, 9500, 1, vec![]);
    rig.sure_till(id, 110.0);
    let other = rig.in_line("l");
    rig.poll(3000, 2, vec![granted("l", 51)]);
    rig.sure_till(other, 112.0);
}

/// A POLL that reaches less far counts for grants that joined after one that reached further.
#[test]
fn leases_that_differ() {
    let mut rig = Rig::open();
    let long = rig.held("long");
    rig.poll(9900, 1, vec![]);
    let short = rig.asked("short");
    rig.answered(&short, grant(51, 2000));
    rig.is_done(short.id);
    rig.at(101.0).poll(1900, 2, vec![]);
    rig.sure_till(short.id, 102.9);
    rig.sure_till(long, 110.0);
    rig.at(102.5).poll(1900, 2, vec![]);
    rig.is_held(short.id);
    rig.sure_till(short.id, 104.4);
}

/// `sure` is lowered before the RENEW, and no POLL sent before its reply counts.
#[test]
fn a_shorter_lease() {
    let mut rig = Rig::open();
    let id = rig.held("k");
    rig.at(101.0).state.renew(id, 2 * S, false);
    rig.sure_till(id, 103.0);
    rig.at(102.0).poll(9000, 1, vec![]);
    rig.sure_till(id, 103.0);
    let sent = rig.at(102.4).begin();
    rig.at(102.5).renewed(id, 101.0, 2000);
    rig.reply(sent, 9000, 1, vec![]);
    rig.sure_till(id, 103.0);
    rig.at(102.6).poll(1500, 1, vec![]);
    rig.sure_till(id, 104.1);
}

#[test]
fn sure_follows_the_lease_in_the_reply() {
    let mut rig = Rig::open();
    let asked = rig.asked("k");
    rig.answered(&asked, grant(50, 3000));
    rig.sure_till(asked.id, 103.0);
    for (sent, lease, sure) in [(102.0, 20_000, 122.0), (103.0, 1000, 122.0)] {
        rig.renewed(asked.id, sent, lease);
        rig.sure_till(asked.id, sure);
    }
}

/// NOTHELD to a RENEW is a loss, any other error is not. A grant that was taken is left alone.
#[test]
fn moving_a_grant() {
    let mut rig = Rig::open();
    let [gone, kept, moving] = ["gone", "kept", "taken"].map(|key| rig.held(key));
    rig.end_session();
    let due = rig.at(101.0).state.due(0);
    for due in due {
        let command = line(&due.0);
        let answer = match command.split(' ').nth(1) {
            Some("gone") => says("NOTHELD x"),
            Some("kept") => says("NOPERM x"),
            _ => no_reply(),
        };
        let reply = rig.said(answer, false);
        (due.1)(&mut rig.state, &reply);
    }
    rig.poll(-1, 0, vec![taken("taken", 50, 9)]);
    rig.is_lost(gone, "gone (NOTHELD)");
    rig.is_lost(moving, "taken");
    rig.is_held(kept);
    rig.is_due(&["LOCK.RENEW kept o TOKEN 50 SESSION 8"]);
}

/// A grant with a fixed lease leaves the session in which it waited; its own `taken` is no loss. It expires.
#[test]
fn a_fixed_lease() {
    let mut rig = Rig::open();
    let id = rig.ask(Terms {
        fixed: Some(500 * MS),
        ..terms("k", 5 * S)
    });
    let asked = rig.sent(id);
    let command = line(&rig.state[id].acquire_command(7, rig.state.at));
    assert!(
        command.contains("PX 1000 HOLDS 1 SESSION 7 QUEUE"),
        "{command}"
    );
    rig.answered(&asked, grant(50, 1000));
    rig.is_done(id);
    let renewal = line(&rig.state.renew(id, 500 * MS, true));
    assert_eq!(renewal, "LOCK.RENEW k o TOKEN 50 SESSION 0 PX 500");
    rig.poll(-1, 0, vec![taken("k", 50, 0)]);
    let reply = rig.at(100.2).said(grant(50, 500), false);
    rig.state.left(id, &reply).expect("renewed");
    rig.poll(9000, 0, vec![granted("k", 50)]);
    rig.sure_till(id, 100.7);
    rig.end_session();
    rig.at(100.5).is_due(&[]);
    assert_eq!(rig.rest(id), Some(200 * MS));
    rig.at(100.7).ends(id, "LOCK.RELEASE k o HOLDS 0 TOKEN 50");
    rig.is_lost(id, "expired");
}

/// A RENEW that takes a grant out of its session and gets no answer: no POLL counts, and silence ends the grant.
#[test]
fn a_leave_without_an_answer() {
    let mut rig = Rig::open();
    let id = rig.held("k");
    is(rig.leave(id, no_reply()), ErrorKind::Unavailable);
    rig.poll(9000, 0, vec![taken("k", 50, 0)]);
    rig.sure_till(id, 103.0);
    rig.at(104.0).poll(9000, 0, vec![]);
    rig.is_lost(id, "silence");
}

/// The events of a grant that has left its session are this client's own doing: nothing is released.
#[test]
fn events_of_a_grant_that_was_detached() {
    let mut rig = Rig::open();
    rig.detached("k");
    rig.poll(-1, 0, vec![granted("k", 50)]);
    rig.is_due(&[]);
    rig.poll(-1, 0, vec![taken("k", 50, 0)]);
    assert!(rig.state.nodes[0].leaving.is_empty());
}

/// It may be adopted, and detached again, before its `taken` arrives. One more `taken` is a loss.
#[test]
fn a_grant_that_is_adopted_before_its_events() {
    let mut rig = Rig::open();
    rig.detached("k");
    rig.detached("k");
    let id = rig.held("k");
    rig.poll(-1, 1, vec![granted("k", 50), taken("k", 50, 0)]);
    rig.poll(-1, 1, vec![taken("k", 50, 0)]);
    rig.is_held(id);
    rig.poll(-1, 0, vec![taken("k", 50, 0)]);
    rig.is_lost(id, "taken");
}

/// A leave that was refused or outlived its session has no `taken`. Nor has one of a grant outside of sessions.
#[test]
fn nothing_is_kept_of_a_grant_that_has_left() {
    let mut rig = Rig::open();
    let id = rig.held("k");
    is(rig.leave(id, says("NOPERM x")), ErrorKind::Refused);
    assert!(rig.state.nodes[0].leaving.is_empty());
    for _ in 0..2 {
        rig.leave(id, grant(50, 3000)).expect("left");
    }
    assert_eq!(rig.state.nodes[0].leaving.len(), 1);
    rig.end_session();
    assert!(rig.state.nodes[0].leaving.is_empty());
}

/// A grant whose maximum time is over is lost, and the release names the session.
#[test]
fn a_maximum_time() {
    let mut rig = Rig::open();
    let id = rig.ask(Terms {
        at_most: Some(S),
        ..terms("k", 5 * S)
    });
    let asked = rig.sent(id);
    rig.answered(&asked, grant(50, 10_000));
    rig.is_done(id);
    assert_eq!(rig.rest(id), Some(S));
    let release = "LOCK.RELEASE k o HOLDS 0 TOKEN 50 SESSION 7";
    rig.at(101.0).ends(id, release);
    rig.is_lost(id, "its maximum time is over");
    let reply = rig.said(no_reply(), false);
    rig.state.released(id, &reply).expect_err("no answer");
    rig.is_due(&[release]);
    rig.apply(&[Ok(int(0))]);
    rig.is_due(&[]);
    assert_eq!(rig.rest(id), None);
}

/// The longest times stand for no end.
#[test]
fn times_without_an_end() {
    let mut rig = Rig::open();
    let id = rig.ask(Terms {
        fixed: Some(Duration::MAX),
        at_most: Some(Duration::MAX),
        ..terms("k", Duration::MAX)
    });
    let asked = rig.sent(id);
    rig.answered(&asked, grant(50, 10_000));
    rig.is_done(id);
    rig.state.renew(id, Duration::MAX, true);
    rig.sure_till(id, 110.0);
    assert_eq!(rig.rest(id), Some(10 * S));
}

/// What another process has detached is adopted by a RENEW. A loss is reported as such.
#[test]
fn an_adoption() {
    let mut rig = Rig::open();
    let id = rig.ask(Terms {
        adopts: Some(("o".into(), 50)),
        ..terms("k", Duration::ZERO)
    });
    let asked = rig.sent(id);
    let command = line(&rig.state[id].acquire_command(7, rig.state.at));
    assert_eq!(command, "LOCK.RENEW k o PX 10000 SESSION 7 TOKEN 50");
    rig.answered(&asked, says("NOTHELD x"));
    is(rig.state.next_step(id), ErrorKind::Lost);
}

/// The token of a quorum is raised; a loss under the raised token may have been reported before.
#[test]
fn a_raised_token() {
    let mut rig = Rig::open();
    let id = rig.held("k");
    rig.state.begin_call(&name("k"));
    rig.poll(-1, 0, vec![lost("k", 60)]);
    rig.is_held(id);
    let raise = line(&rig.state[id].renew_command(Some(("RAISE", 60))));
    assert_eq!(raise, "LOCK.RENEW k o TOKEN 50 RAISE 60");
    let reply = rig.said(grant(60, 10_000), false);
    is(rig.state.confirmed(id, &reply), ErrorKind::Lost);
    rig.is_lost(id, "deleted");
}
