//! Programs that hold locks or wait for some, but do not poll.

use crate::support::{Doctor, Finding, healthy};
use crate::users::rule;
use testbed::{Expect, Session, eventually, run};

#[test]
fn a_frozen_and_a_detached_program_with_their_locks() {
    let (server, mut c) = healthy().started();
    let open = |name: &str| Session::open_on(server.connection(), &format!("NAME {name}"));
    let [mut polls, mut frozen, detached] = ["well", "frozen", "gone"].map(open);
    polls.acquire("lock:w w");
    polls.post_poll(60_000);
    frozen.acquire("lock:a a");
    detached.queue(&mut c, "lock:a b");
    let detached = detached.leave(&server);
    // The rights of the manual are enough to name the locks.
    run(&mut c, rule()).okay();
    let doctor = Doctor::by("doctor:secret", &server);
    let found = || doctor.looks().bad("programs");
    eventually(|| found().len() == 2, "both to be found");
    let found = found();
    for (session, state, locks) in [
        (frozen.id, "passed over", "holds 1 (lock:a), waits for 0"),
        (detached, "not renewed", "holds 0, waits for 1 (lock:a)"),
    ] {
        let own = |one: &&Finding| one.seen.contains(&session.to_string());
        let finding = found.iter().find(own).expect("a finding").clone();
        let finding = finding.says(state).says(locks);
        assert!(!finding.seen.contains("Its user"), "{finding:?}");
        finding.run_all(&server);
    }
    Doctor::of(&server).gone("programs");
}

#[test]
fn a_program_whose_user_is_deleted() {
    let (server, mut c) = healthy().started();
    run(&mut c, "ACL SETUSER shop on >secret ~lock:* +@all").okay();
    let shop = server.connection_as("shop", "secret");
    Session::open_on(shop, "NAME shop").acquire("lock:a a");
    run(&mut c, "ACL DELUSER shop").int();
    Doctor::of(&server)
        .comes("programs", "user shop) is detached")
        .says("holds 1 (lock:a)")
        .says("Its user may not acquire locks here");
}
