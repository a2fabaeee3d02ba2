//! Programs that hold locks or wait for some, but do not poll.

use crate::login::rule;
use crate::support::{Doctor, Finding, healthy};
use testbed::{Expect, cmd, eventually, post, run};

#[test]
fn a_frozen_and_a_detached_program_with_their_locks() {
    let server = healthy().start();
    let mut c = server.connection();
    let open = |c: &mut redis::Connection, name: &str| {
        cmd!(*c, "LOCK.SESSION", "OPEN", "NAME", name).int()
    };
    let mut polls = server.connection();
    let well = open(&mut polls, "well");
    cmd!(polls, "LOCK.ACQUIRE", "lock:w", "w", "SESSION", well).grant();
    post!(polls, "LOCK.SESSION", "POLL", well, "BLOCK", 60_000);
    let frozen = open(&mut c, "frozen");
    cmd!(c, "LOCK.ACQUIRE", "lock:a", "a", "SESSION", frozen).grant();
    let mut other = server.connection();
    let detached = open(&mut other, "gone");
    let line = format!("LOCK.ACQUIRE lock:a b HOLDS 1 SESSION {detached} QUEUE 0");
    run(&mut other, &line).int();
    drop(other);
    // The rights of the manual are enough to name the locks.
    run(&mut c, rule()).okay();
    let doctor = Doctor::by("doctor:secret", &server);
    let found = || doctor.looks().bad("programs");
    eventually(|| found().len() == 2, "both to be found");
    let found = found();
    for (session, state, locks) in [
        (frozen, "passed over", "holds 1 (lock:a), waits for 0"),
        (detached, "not renewed", "holds 0, waits for 1 (lock:a)"),
    ] {
        let own = |one: &&Finding| one.seen().contains(&session.to_string());
        let finding = found.iter().find(own).expect("a finding").clone();
        let finding = finding.says(state).says(locks);
        assert!(!finding.seen().contains("Its user"), "{finding:?}");
        finding.run_all(&server);
    }
    Doctor::of(&server).gone("programs");
}

#[test]
fn a_program_whose_user_is_deleted() {
    let server = healthy().start();
    let mut c = server.connection();
    run(&mut c, "ACL SETUSER shop on >secret ~lock:* +@all").okay();
    let mut shop = server.connection();
    run(&mut shop, "AUTH shop secret").okay();
    let session = cmd!(shop, "LOCK.SESSION", "OPEN", "NAME", "shop").int();
    cmd!(shop, "LOCK.ACQUIRE", "lock:a", "a", "SESSION", session).grant();
    run(&mut c, "ACL DELUSER shop").int();
    Doctor::of(&server)
        .comes("programs", "user shop) is detached")
        .says("holds 1 (lock:a)")
        .says("Its user may not acquire locks here");
}
