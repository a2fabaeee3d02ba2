use super::*;

/// † The reply is no grant: the wait is asked again. A grant with another token counts.
#[test]
fn a_loss_before_the_reply_that_names_the_grant() {
    let mut rig = Rig::open();
    let asked = rig.asked("k");
    rig.state.begin_call(name("k"));
    rig.poll(-1, 0, vec![lost("k", 50)]);
    rig.state.answered(&asked, &grant(50, 10_000));
    let again = rig.sent(asked.id);
    rig.state.answered(&again, &grant(51, 10_000));
    rig.is_done(asked.id);
    rig.is_due(&[]);
}

#[test]
fn a_loss_is_forgotten_when_the_calls_of_its_time_are_answered() {
    let mut rig = Rig::open();
    let [first, second] = ["a", "b"].map(|key| rig.state.begin_call(name(key)));
    rig.poll(-1, 0, vec![lost("k", 50)]);
    let third = rig.state.begin_call(name("c"));
    rig.state.end_call(first);
    assert_eq!(rig.state.losses.len(), 1);
    rig.state.end_call(second);
    assert!(rig.state.losses.is_empty());
    rig.state.end_call(third);
    rig.poll(-1, 0, vec![lost("k", 51)]);
    assert!(rig.state.losses.is_empty());
}

/// † A program that slept keeps its locks if the next POLL confirms them; else silence ends them.
#[test]
fn silence_is_judged_by_a_poll_that_began_after_sure() {
    let mut rig = Rig::open();
    let id = rig.held("k");
    let sent = rig.at(109.9).begin();
    rig.at(130.0).reply(sent, 0, 1, vec![]); // after a sleep of 20 s
    rig.is(id, Phase::Held, "");
    assert_eq!(rig.state.block(0), 100 * MS);
    assert!(rig.state.sure(id) <= rig.state.at);
    rig.poll(5000, 1, vec![]);
    rig.sure_till(id, 135.000_000_001);
    assert_eq!(rig.state.block(0), 10 * S / 3);
    rig.at(140.0)
        .state
        .failed(0, at(139.0), &Error::unanswered("timeout"));
    rig.is(id, Phase::Lost, "silence");
    rig.is_due(&["LOCK.RELEASE k o ALL TOKEN 50"]);
}

#[test]
fn a_refused_connection_counts_after_a_second_of_tries() {
    let mut rig = Rig::open();
    let fault = Error::unsent("refused");
    let (id, other) = (rig.held("k"), rig.held("other"));
    rig.state.claims.get_mut(&other).expect("held").sure = at(132.0);
    rig.at(109.0).state.failed(0, at(109.0), &fault);
    rig.at(130.0).state.failed(0, at(130.0), &fault); // the program slept
    rig.at(130.1).state.failed(0, at(130.1), &fault);
    rig.is(id, Phase::Held, "");
    rig.at(131.0).state.failed(0, at(130.9), &fault);
    rig.is(id, Phase::Lost, "silence");
    rig.at(133.1).state.failed(0, at(132.1), &fault); // one try that takes a second
    rig.is(other, Phase::Lost, "silence");
}

#[test]
fn a_loss_is_reported_once() {
    let mut rig = Rig::open();
    let id = rig.held("k");
    rig.poll(5000, 1, vec![lost("k", 49)]);
    rig.is(id, Phase::Held, "");
    rig.poll(5000, 0, vec![lost("k", 50)]);
    rig.state.changed.clear();
    let answer = rig.answer(says("NOTHELD x"), false);
    is(rig.state.confirmed(id, &answer), ErrorKind::Lost);
    rig.is(id, Phase::Lost, "deleted");
    assert!(rig.state.changed.is_empty());
}

/// In a cluster, a deleted grant may be at another node: it is unsure until that node has answered.
#[test]
fn a_grant_that_moved_to_another_node() {
    for (reply, reason) in [(grant(50, 10_000), ""), (says("NOTHELD x"), "deleted")] {
        let mut rig = Rig::open();
        rig.state.is_cluster = true;
        rig.state.nodes.push(Node::new("other"));
        rig.state.opened(1, 9);
        let id = rig.held("k");
        rig.state.begin_call(name("other"));
        rig.poll(-1, 0, vec![lost("k", 50)]);
        rig.is(id, Phase::Held, "deleted");
        assert!(rig.state.sure(id) <= rig.state.at);
        let sent = rig.apply(&[says("MOVED 1 b:1")]);
        assert_eq!(sent, ["LOCK.RENEW k o SESSION 7 TOKEN 50"]);
        rig.at(101.0).poll(-1, 0, vec![]);
        rig.is(id, Phase::Held, "deleted");
        let (ended, ..) = rig.state.displaced.remove(0);
        rig.state.relocate(&ended, to(1, true));
        rig.is_due(&[]);
        let mut due = rig.state.due(1);
        assert_eq!(line(&due[0].0), "ASKING");
        let (renew, moved) = due.remove(1);
        assert_eq!(line(&renew), "LOCK.RENEW k o SESSION 9 TOKEN 50");
        moved(&mut rig.state, at(101.0), &reply);
        assert_eq!(rig.state.claims[&id].reason, reason);
        if reason.is_empty() {
            assert!(rig.state.claims[&id].to.node == 1 && rig.state.nodes[1].grants.contains(&id));
            rig.sure_till(id, 111.0);
        }
    }
}

/// The node that reported the loss has it no more, and redirects nobody: it is lost.
#[test]
fn a_grant_that_is_deleted_in_a_cluster() {
    let mut rig = Rig::open();
    rig.state.is_cluster = true;
    let id = rig.held("k");
    rig.poll(-1, 0, vec![lost("k", 50)]);
    rig.apply(&[says("NOTHELD x")]);
    rig.is(id, Phase::Lost, "deleted");
}
