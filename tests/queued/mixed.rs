//! One line for queued and blocked calls: their order, sharing, semaphores.

use crate::support::granted;
use testbed::{Expect, Server, Session, at_once, cmd, held, run, wait, waiters};

/// Two sessions whose POLLs wait.
#[track_caller]
fn two(server: &Server) -> [Session; 2] {
    [(); 2].map(|()| {
        let mut session = Session::open(server);
        session.stay(server);
        session
    })
}

/// A call of the session has been granted `k`, and its next POLL waits.
#[track_caller]
fn has_k(session: &mut Session, server: &Server, owner: &str) {
    let events = session.told();
    assert_eq!(events.len(), 1, "{events:?}");
    let part = format!(" granted k {owner} ");
    assert!(events[0].contains(&part), "{events:?}");
    session.stay(server);
}

#[test]
fn queued_and_blocked_calls_are_served_in_one_order() {
    let (server, mut c) = held();
    let [mut one, mut other] = two(&server);
    one.queue(&mut c, "k b");
    let mut first = wait(&server, "k c PX 600000 BLOCK 0");
    other.queue(&mut c, "k d");
    one.queue(&mut c, "k e");
    let mut second = wait(&server, "k f PX 600000 BLOCK 0");
    run(&mut c, "LOCK.RELEASE k a").int();
    has_k(&mut one, &server, "b");
    one.release(&mut c, "k", "b");
    let mut last = first.granted().token;
    run(&mut c, "LOCK.RELEASE k c").int();
    has_k(&mut other, &server, "d");
    other.release(&mut c, "k", "d");
    has_k(&mut one, &server, "e");
    let token = cmd!(c, "LOCK.FENCE", "k").int();
    assert!(token > last);
    last = token;
    one.release(&mut c, "k", "e");
    assert!(second.granted().token > last);
    assert_eq!(waiters(&mut c, "k"), [""; 0]);
}

/// The client of a blocked call disconnects before it gets the reply. Another call of its grant was answered.
#[test]
fn what_a_blocked_call_gives_back_is_not_the_grant_of_a_queued_one() {
    let (server, mut c, mut session) = Session::held();
    let blocked = wait(&server, "k b PX 600000 BLOCK 0 HOLDS 1");
    session.queue(&mut c, "k b");
    session.stay(&server);
    let kill = format!("CLIENT KILL ID {}", blocked.id);
    at_once(&mut c, &["LOCK.RELEASE k a", &kill]);
    assert_eq!(session.told(), [granted(&mut c, 1, "k", "b")]);
    assert_eq!(run(&mut c, "LOCK.INFO k").lock_info().holds, 1);
    assert_eq!(session.poll().grants, 1);
}
