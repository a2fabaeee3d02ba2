//! Programs that hold locks or wait for some, and do not poll.

use crate::login::rule;
use crate::support::{doctor, gone, healthy, look};
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
    let detached = {
        let mut other = server.connection();
        let session = open(&mut other, "gone");
        let line = format!("LOCK.ACQUIRE lock:a b HOLDS 1 SESSION {session} QUEUE 0");
        run(&mut other, &line).int();
        session
    };
    // The rights of the manual are enough to name the locks.
    run(&mut c, rule()).okay();
    let url = format!("redis://doctor:secret@127.0.0.1:{}", server.port());
    let words = ["--url", url.as_str()];
    let found = || doctor(&words).bad("programs");
    eventually(|| found().len() == 2, "both to be found");
    let found = found();
    let of = |session: i64| {
        let own = |one: &&crate::support::Finding| one.seen().contains(&session.to_string());
        found.iter().find(own).expect("a finding")
    };
    let (frozen, detached) = (of(frozen), of(detached));
    for part in [
        "the program frozen",
        "passed over",
        "holds 1 (lock:a)",
        "waits for 0",
    ] {
        assert!(frozen.seen().contains(part), "{part}: {frozen:?}");
    }
    for part in [
        "the program gone",
        "not renewed",
        "holds 0",
        "waits for 1 (lock:a)",
    ] {
        assert!(detached.seen().contains(part), "{part}: {detached:?}");
    }
    for finding in [frozen, detached] {
        assert!(!finding.seen().contains("Its user"), "{finding:?}");
        finding.run_all(&mut c);
    }
    gone(&server, "programs");
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
    let found = || look(&server).bad("programs");
    eventually(|| !found().is_empty(), "the program to be found");
    let seen = found()[0].seen().to_owned();
    for part in [
        "user shop) is detached",
        "holds 1 (lock:a)",
        "Its user may not acquire locks here",
    ] {
        assert!(seen.contains(part), "{part}: {seen}");
    }
}
