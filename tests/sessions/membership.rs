//! To which session a grant belongs: `SESSION` in ACQUIRE, RENEW and RELEASE.

use testbed::{Expect, Session, await_renewals, cmd, run, sessions_of};

#[test]
fn acquire_and_renew_put_a_grant_into_a_session() {
    let (server, mut c, mut session) = Session::opened();
    session.acquire("new a");
    run(&mut c, "LOCK.ACQUIRE old a").grant();
    run(&mut c, "LOCK.ACQUIRE again a").grant();
    assert_eq!(session.poll().grants, 1);
    session.run("LOCK.RENEW old a SESSION ID").grant();
    session.acquire("again a");
    assert_eq!(session.poll().grants, 3);
    assert_eq!(server.count("session_grants"), 3);
    for key in ["new", "old", "again"] {
        assert_eq!(sessions_of(&mut c, key), [session.id]);
    }
    // From any connection of the user.
    session.on(&mut c, "LOCK.ACQUIRE far a SESSION ID").grant();
    assert_eq!(session.poll().grants, 4);
}

#[test]
fn a_call_without_session_leaves_it_where_it_is() {
    let (_server, mut c, mut session) = Session::opened();
    session.acquire("k a");
    run(&mut c, "LOCK.ACQUIRE k a").grant();
    run(&mut c, "LOCK.RENEW k a").grant();
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(sessions_of(&mut c, "k"), [session.id]);
    let polled = session.poll();
    assert_eq!((polled.grants, polled.events), (1, vec![]));
}

#[test]
fn a_grant_that_is_taken_is_told() {
    let (server, mut c, mut first) = Session::opened();
    let mut second = Session::open(&server);
    let token = first.acquire("k a").token;
    second.run("LOCK.RENEW k a SESSION ID").grant();
    let event = format!("1 taken k a {token} {}", second.id);
    let polled = first.poll();
    assert_eq!((polled.grants, polled.events), (0, vec![event]));
    assert_eq!(second.poll().grants, 1);
    // By an acquire too, and back.
    first.acquire("k a");
    let event = format!("1 taken k a {token} {}", first.id);
    assert_eq!(second.poll().events, [event]);
    // Out of any.
    first.stay(&server);
    run(&mut c, "LOCK.RENEW k a SESSION 0").grant();
    assert_eq!(first.polled().events, [format!("2 taken k a {token} 0")]);
    assert_eq!(sessions_of(&mut c, "k"), [0]);
    // A grant that is in none is left so.
    run(&mut c, "LOCK.RENEW k a SESSION 0").grant();
    assert_eq!(first.poll().events, Vec::<String>::new());
    assert_eq!(server.count("session_losses"), 0);
    assert_eq!(server.count("session_grants"), 0);
}

#[test]
fn a_release_that_names_the_session_is_no_event() {
    let (server, mut c, mut session) = Session::opened();
    let mut other = Session::open(&server);
    let token = session.acquire("k a").token;
    let words = session.line(&format!("LOCK.RELEASE k a TOKEN {token} SESSION ID"));
    assert_eq!(run(&mut c, &words).int(), 0);
    let polled = session.poll();
    assert_eq!((polled.grants, polled.events), (0, vec![]));
    for (number, words) in (1..).zip([
        "LOCK.RELEASE k a TOKEN #".to_owned(),
        "LOCK.RELEASE k a ALL".to_owned(),
        other.line("LOCK.RELEASE k a TOKEN # SESSION ID"),
        // It is not checked.
        "LOCK.RELEASE k a HOLDS 0 TOKEN # SESSION 12345".to_owned(),
    ]) {
        let token = session.acquire("k a").token;
        let words = words.replace('#', &token.to_string());
        assert_eq!(run(&mut c, &words).int(), 0, "{words}");
        let lost = format!("{number} lost k a {token} released");
        assert_eq!(session.poll().events, [lost], "{words}");
    }
    assert_eq!(other.poll().events, Vec::<String>::new());
}

#[test]
fn a_raised_token_leaves_it_in() {
    let (server, mut c, mut session) = Session::opened();
    let token = session.acquire("k a PX 1000").token;
    let raised = token + 1000;
    cmd!(c, "LOCK.RENEW", "k", "a", "TOKEN", token, "RAISE", raised).grant();
    await_renewals(&server, 2);
    run(&mut c, "DEL k").int();
    let lost = format!("1 lost k a {raised} deleted");
    assert_eq!(session.poll().events, [lost]);
    // And with SESSION, into another.
    let mut other = Session::open(&server);
    let token = session.acquire("k a").token;
    let raised = token + 1000;
    let words = format!("LOCK.RENEW k a TOKEN {token} RAISE {raised} SESSION ID");
    other.run(&words).grant();
    let event = format!("2 taken k a {raised} {}", other.id);
    assert_eq!(session.poll().events, [event]);
    assert_eq!(other.poll().grants, 1);
}

#[test]
fn a_lease_in_a_session_is_a_second_or_more() {
    let (server, mut c, mut session) = Session::opened();
    run(&mut c, "LOCK.ACQUIRE short a PX 999").grant();
    run(&mut c, "PERSIST short").int();
    let token = session.acquire("in a PX 60000").token;
    for words in [
        "LOCK.ACQUIRE short a SESSION ID".to_owned(),
        "LOCK.RENEW short a SESSION ID".to_owned(),
        "LOCK.RENEW in a PX 999".to_owned(),
        format!("LOCK.RENEW in a PX 999 TOKEN {token} RAISE {}", token + 1),
    ] {
        let text = session.run(&words).refused("ERR");
        assert!(text.contains("1000 ms"), "{words}: {text}");
    }
    run(&mut c, "CONFIG SET lock.default-lease-ms 500").okay();
    let last = server.last_token();
    session.run("LOCK.ACQUIRE free a SESSION ID").refused("ERR");
    assert_eq!(server.last_token(), last);
    assert_eq!(run(&mut c, "EXISTS free").int(), 0);
    assert_eq!(run(&mut c, "LOCK.INFO short").lock_info().holds, 1);
    assert_eq!(run(&mut c, "LOCK.INFO in").lock_info().lease_ms, 60_000);
    // A re-entry never shortens.
    run(&mut c, "LOCK.ACQUIRE in a PX 1").grant();
    session.acquire("short a PX 1000");
    // SESSION 0 may shorten it.
    let grant = run(&mut c, "LOCK.RENEW in a PX 500 SESSION 0").grant();
    assert_eq!(grant.lease, 500);
    assert_eq!(session.poll().grants, 1);
}
