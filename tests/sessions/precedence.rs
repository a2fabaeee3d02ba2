//! Where several errors would apply: `ERR` for the arguments, `NOSESSION`, then as without a session, and last
//! what depends on the lock's state.

use testbed::{Expect, Session, at_once, run};

#[test]
fn the_first_of_the_order_wins() {
    let (_server, mut c, mut session) = Session::opened();
    run(&mut c, "SET string v").okay();
    run(&mut c, "LOCK.ACQUIRE short a PX 999 HOLDS 1").grant();
    run(&mut c, "PERSIST short").int();
    for (words, code) in [
        ("LOCK.ACQUIRE string a SESSION 7 PX 999", "ERR"),
        ("LOCK.ACQUIRE string a SESSION 7", "NOSESSION"),
        ("LOCK.RENEW string a SESSION 7", "NOSESSION"),
        ("LOCK.RENEW free a SESSION 7", "NOSESSION"),
        ("LOCK.RENEW short b SESSION 7", "NOSESSION"),
        ("LOCK.ACQUIRE string a SESSION ID", "WRONGTYPE"),
        ("LOCK.RENEW string a SESSION ID", "WRONGTYPE"),
        ("LOCK.RELEASE string a TOKEN 1 SESSION 7", "WRONGTYPE"),
        ("LOCK.RENEW free a SESSION ID", "NOTHELD"),
        ("LOCK.RENEW free a SESSION 0", "NOTHELD"),
        ("LOCK.ACQUIRE free a HOLDS 2 SESSION ID", "NOTHELD"),
        ("LOCK.RELEASE free a TOKEN 1 SESSION ID", "NOTHELD"),
        ("LOCK.RENEW short b SESSION ID", "NOTOWNER"),
        ("LOCK.RELEASE short b TOKEN 1 SESSION ID", "NOTOWNER"),
        ("LOCK.RENEW short a TOKEN 7 SESSION ID", "FENCED"),
        ("LOCK.RENEW short a TOKEN 7 SESSION 0", "FENCED"),
        ("LOCK.ACQUIRE short a TOKEN 7 SESSION ID", "FENCED"),
        ("LOCK.RELEASE short a TOKEN 7 SESSION ID", "FENCED"),
        ("LOCK.RENEW short a SESSION ID", "ERR"),
        ("LOCK.ACQUIRE short a SESSION ID", "ERR"),
    ] {
        session.run(words).refused(code);
    }
    // NOTALONE and AHEAD come before the lease.
    let lines = [
        "LOCK.ACQUIRE shared a SHARED PX 999",
        "LOCK.ACQUIRE shared b SHARED PX 600000",
        &session.line("LOCK.ACQUIRE shared a SESSION ID"),
    ];
    let mut last = at_once(&mut c, &lines);
    last.pop().expect("a reply").refused("NOTALONE");
    let token = run(&mut c, "LOCK.FENCE short").int();
    let far = token + 3_600_000_000;
    let words = format!("LOCK.RENEW short a TOKEN {token} RAISE {far} SESSION ID");
    session.run(&words).refused("AHEAD");
    // Nothing is changed by any of them.
    assert_eq!(session.poll().grants, 0);
    let info = run(&mut c, "LOCK.INFO short").lock_info();
    assert_eq!((info.holds, info.lease_ms, info.token), (1, 999, token));
    assert_eq!(run(&mut c, "EXISTS free").int(), 0);
}

#[test]
fn a_refused_call_lifts_no_token() {
    let (server, mut c, mut session) = Session::opened();
    let token = run(&mut c, "LOCK.ACQUIRE short a PX 999").grant().token;
    run(&mut c, "PERSIST short").int();
    let last = server.last_token();
    let words = format!(
        "LOCK.RENEW short a TOKEN {token} RAISE {} SESSION ID",
        last + 2_000_000
    );
    session.run(&words).refused("ERR");
    assert_eq!(server.last_token(), last);
}
