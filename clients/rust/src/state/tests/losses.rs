use super::*;

/// † The reply is no grant: the wait is asked again. A grant with another token counts.
#[test]
fn a_loss_before_the_reply_that_names_the_grant() {
    let mut rig = Rig::open();
    let asked = rig.asked("k");
    rig.state.begin_call(&name("k"));
    rig.poll(-1, 0, vec![lost("k", 50)]);
    rig.answered(&asked, grant(50, 10_000));
    let again = rig.sent(asked.id);
    rig.answered(&again, grant(51, 10_000));
    rig.is_done(asked.id);
    rig.is_due(&[]);
}

#[test]
fn a_loss_is_forgotten_when_the_calls_in_its_name_are_answered() {
    let mut rig = Rig::open();
    rig.state.begin_call(&name("k"));
    rig.state.begin_call(&name("k"));
    rig.poll(-1, 0, vec![lost("k", 50), lost("other", 51)]);
    rig.state.end_call(&name("k"));
    assert_eq!(rig.state.losses.len(), 1);
    rig.state.end_call(&name("k"));
    assert!(rig.state.losses.is_empty() && rig.state.calls.is_empty());
}

/// † A program that slept keeps its locks if the next POLL confirms them; else silence ends them.
#[test]
fn silence_is_judged_by_a_poll_that_began_after_sure() {
    let mut rig = Rig::open();
    let id = rig.held("k");
    let sent = rig.at(109.9).begin();
    rig.at(130.0).reply(sent, 0, 1, vec![]); // after a sleep of 20 s
    rig.is_held(id);
    assert_eq!(rig.state.block(0), 100 * MS);
    assert!(rig.state[id].remaining(rig.state.at).is_zero());
    rig.poll(5000, 1, vec![]);
    rig.sure_till(id, 135.000_000_001);
    assert_eq!(rig.state.block(0), 10 * S / 3);
    rig.at(140.0)
        .state
        .failed(0, at(139.0), &Error::unanswered("server", "timeout"));
    rig.is_lost(id, "silence");
    rig.is_due(&["LOCK.RELEASE k o ALL TOKEN 50"]);
}

#[test]
fn a_refused_connection_counts_after_a_second_of_tries() {
    let mut rig = Rig::open();
    let fault = Error::unsent("server", "refused");
    let (id, other) = (rig.held("k"), rig.held("other"));
    rig.state[other].sure = at(132.0);
    rig.at(109.0).state.failed(0, at(109.0), &fault);
    rig.at(130.0).state.failed(0, at(130.0), &fault); // the program slept
    rig.at(130.1).state.failed(0, at(130.1), &fault);
    rig.is_held(id);
    rig.at(131.0).state.failed(0, at(130.9), &fault);
    rig.is_lost(id, "silence");
    rig.at(133.1).state.failed(0, at(132.1), &fault); // one try that takes a second
    rig.is_lost(other, "silence");
}

#[test]
fn a_loss_is_reported_once() {
    let mut rig = Rig::open();
    let id = rig.held("k");
    rig.poll(5000, 1, vec![lost("k", 49)]);
    rig.is_held(id);
    rig.poll(5000, 0, vec![lost("k", 50)]);
    rig.state.changed.clear();
    let reply = rig.said(says("NOTHELD x"), false);
    is(rig.state.confirmed(id, &reply), ErrorKind::Lost);
    rig.is_lost(id, "deleted");
    assert!(rig.state.changed.is_empty());
}

/// In a cluster, a deleted grant may be at another node: it is unsure until that node has answered.
#[test]
fn a_grant_that_moved_to_another_node() {
    for (answer, is_there) in [(grant(50, 10_000), true), (says("NOTHELD x"), false)] {
        let mut rig = Rig::open();
        rig.state.is_cluster = true;
        rig.add_node("other", 9);
        let id = rig.held("k");
        rig.poll(-1, 0, vec![lost("k", 50)]);
        rig.is_held(id);
        assert!(rig.state[id].remaining(rig.state.at).is_zero());
        rig.poll(-1, 0, vec![]);
        rig.is_due(&[]);
        let (_, find) = rig.state.find(id).expect("it is looked for");
        assert_eq!(line(&find), "LOCK.RENEW k o TOKEN 50");
        let mut reply = rig.at(101.0).said(answer, false);
        reply.node = 1;
        rig.state.moved(id, 0, &reply);
        if is_there {
            rig.sure_till(id, 111.0);
            let due = rig.state.due(1);
            assert_eq!(line(&due[0].0), "LOCK.RENEW k o TOKEN 50 SESSION 9");
            rig.is_due(&[]);
        } else {
            rig.is_lost(id, "deleted");
        }
    }
}

/// Nor is it lost when a call in its name is under way: only the search decides.
#[test]
fn a_grant_that_moves_during_a_call() {
    let stands = || grant(50, 10_000);
    let checked = || Ok(word("OK"));
    for (called, search, is_there) in [
        (checked(), stands(), true),
        (stands(), stands(), true), // a renewal
        (no_reply(), says("NOTHELD x"), false),
    ] {
        let mut rig = Rig::open();
        rig.state.is_cluster = true;
        rig.add_node("other", 9);
        let id = rig.held("k");
        rig.state.begin_call(&name("k"));
        rig.poll(-1, 0, vec![lost("k", 50)]);
        rig.state.find(id).expect("it is looked for");
        rig.poll(-1, 0, vec![lost("k", 50)]); // it is in doubt already
        let reply = rig.said(called, false);
        let _ = rig.state.confirmed(id, &reply);
        rig.is_held(id);
        let mut reply = rig.at(101.0).said(search, false);
        reply.node = 1;
        rig.state.moved(id, 0, &reply);
        if is_there {
            rig.is_held(id);
            rig.poll(-1, 0, vec![lost("k", 50)]); // from the node that it has left
            rig.is_held(id);
        } else {
            rig.is_lost(id, "deleted");
        }
    }
}

/// A grant that its node redirects is looked for; so is all of a node that another one has replaced.
#[test]
fn what_is_at_another_node() {
    let mut rig = Rig::open();
    rig.state.is_cluster = true;
    rig.add_node("other", 9);
    let (id, wait) = (rig.held("k"), rig.in_line("wait"));
    rig.end_session();
    rig.apply(&[says("MOVED 1 b:1"), Ok(int(0))]);
    assert!(rig.state.find(id).is_some());
    rig.sure_till(id, 110.0);
    assert_eq!(rig.state.claims_at(0).len(), 2);
    rig.state.relocate(wait, 0, 1);
    assert_eq!(rig.sent(wait).session, 9);
    rig.state.relocate(wait, 0, 1);
    assert_eq!(rig.state.claims_at(0), [id]);
    assert!(!rig.state.abandon(0));
    rig.state.remove(id);
    rig.state.give_back(0, (name("k"), 50));
    assert!(rig.state.abandon(0) && rig.state.unfinished.is_empty());
}
