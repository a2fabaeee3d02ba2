//! Every command on a key gets the redirections that any command on that key gets.

use crate::support::{KEY, SLOT, sent, two_nodes};
use redis::Connection;
use testbed::{Cluster, Expect, Reply, Talk, cmd, line};

/// Each command that takes a key, as one line.
const CALLS: [&str; 11] = [
    "LOCK.ACQUIRE KEY a",
    "LOCK.ACQUIRE KEY a PX 600000 HOLDS 1",
    "LOCK.ACQUIRE KEY a BLOCK 0",
    "LOCK.RENEW KEY a",
    "LOCK.FENCE KEY",
    "LOCK.FENCE KEY 1",
    "LOCK.INFO KEY",
    "LOCK.WAITERS KEY",
    "LOCK.RELEASE KEY a HOLDS 0",
    "LOCK.RELEASE KEY a ALL",
    "LOCK._APPLY KEY a 5 1 60000 -1",
];

fn run(c: &mut Connection, call: &str, key: &str) -> Reply {
    c.send(&line(&call.replace("KEY", key)))
}

/// What any command on the key is told, by the example of `GET`.
fn any_command(c: &mut Connection, key: &str) -> Reply {
    cmd!(*c, "GET", key)
}

/// Demands a reply of the module's own, be it an error.
#[track_caller]
fn assert_served(reply: &Reply, call: &str) {
    if let Err(refusal) = reply {
        let own = ["FENCED", "NOTHELD"].contains(&refusal.code());
        assert!(own, "{call}: {refusal}");
    }
}

#[test]
fn a_key_of_another_node_is_moved() {
    let cluster = Cluster::start(2, 0);
    let mut c = cluster.node(0).connection();
    let moved = sent("MOVED", &cluster, 1);
    assert_eq!(any_command(&mut c, KEY).refused("MOVED"), moved);
    for call in CALLS {
        assert_eq!(run(&mut c, call, KEY).refused("MOVED"), moved, "{call}");
    }
}

#[test]
fn a_key_that_is_not_there_any_more_is_asked_for_elsewhere() {
    let (cluster, mut c) = two_nodes();
    cluster.begin_move(SLOT, 1, 0);
    for call in CALLS {
        // One that is still there is served. A call before this one may have freed it.
        cluster.set_stable(1, SLOT);
        cmd!(c, "LOCK.ACQUIRE", KEY, "a", "HOLDS", 1).grant();
        cluster.set_slot(1, SLOT, "MIGRATING", 0);
        assert_served(&run(&mut c, call, KEY), call);
    }
    let gone = "{foo}gone";
    let ask = sent("ASK", &cluster, 0);
    assert_eq!(any_command(&mut c, gone).refused("ASK"), ask);
    for call in CALLS {
        assert_eq!(run(&mut c, call, gone).refused("ASK"), ask, "{call}");
    }
}

#[test]
fn an_importing_node_serves_those_who_are_sent_to_it() {
    let cluster = Cluster::start(2, 0);
    cluster.begin_move(SLOT, 1, 0);
    let mut c = cluster.node(0).connection();
    let moved = sent("MOVED", &cluster, 1);
    for call in CALLS {
        assert_eq!(run(&mut c, call, KEY).refused("MOVED"), moved, "{call}");
        cmd!(c, "ASKING").okay();
        assert_served(&run(&mut c, call, KEY), call);
    }
}

#[test]
fn two_keys_of_which_one_has_left_are_to_be_tried_again() {
    let (cluster, mut c) = two_nodes();
    let (here, gone) = (KEY, "{foo}gone");
    cmd!(c, "LOCK.ACQUIRE", here, "a", "PX", 600_000).grant();
    cluster.begin_move(SLOT, 1, 0);
    let script = "return redis.call('LOCK.FENCE', KEYS[1]) and redis.call('LOCK.INFO', KEYS[2])";
    cmd!(c, "EVAL", script, 2, here, gone).refused("TRYAGAIN");
    cmd!(c, "MULTI").okay();
    // Some servers look at each command of a transaction when it comes, some at all of them at once.
    let queued = [here, gone].map(|key| cmd!(c, "LOCK.ACQUIRE", key, "a"));
    let code = match &queued[1] {
        Ok(_) => "TRYAGAIN",
        Err(refusal) => {
            assert_eq!(refusal.code(), "ASK");
            "EXECABORT"
        }
    };
    cmd!(c, "EXEC").refused(code);
    // And so on the node that they are sent to.
    let mut c = cluster.node(0).connection();
    cmd!(c, "ASKING").okay();
    cmd!(c, "EVAL", script, 2, here, gone).refused("TRYAGAIN");
}

#[test]
fn the_token_clock_may_be_lifted_on_every_node() {
    let cluster = Cluster::start(2, 0);
    for node in 0..2 {
        cmd!(cluster.node(node).connection(), "LOCK._CLOCK", 20).okay();
    }
}
