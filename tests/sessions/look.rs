//! What LIST, GRANTS, HOLDERS, WAITERS and `INFO lock` tell.

use redis::Value;
use std::thread::sleep;
use std::time::Duration;
use testbed::{Expect, Session, eventually, held, run, started, timed, wait};

#[test]
fn list_has_the_oldest_first() {
    let (server, mut c) = started();
    let mut sessions: Vec<_> = (0..4)
        .map(|n| Session::open_on(server.connection(), &format!("NAME s{n}")))
        .collect();
    let mut names = |words: &str| -> Vec<String> {
        let list = run(&mut c, words).items().into_iter();
        list.map(|session| session.fields()["name"].clone().text())
            .collect()
    };
    assert_eq!(names("LOCK.SESSION LIST"), ["s0", "s1", "s2", "s3"]);
    assert_eq!(names("LOCK.SESSION LIST COUNT 2"), ["s0", "s1"]);
    sessions.remove(1).run("LOCK.SESSION CLOSE ID").int();
    assert_eq!(names("LOCK.SESSION LIST"), ["s0", "s2", "s3"]);
    let fields = sessions[0].listed(&mut c);
    let names: Vec<_> = fields.keys().map(String::as_str).collect();
    let wanted = "age-ms client-id db events grants id idle-ms name timeout-ms user waiting";
    assert_eq!(names.join(" "), wanted);
    assert_eq!(fields["user"].clone().text(), "default");
    assert_eq!(fields["db"], Value::Int(0));
}

#[test]
fn a_session_is_not_idle_while_a_poll_waits() {
    let (server, mut c, mut session) = Session::opened();
    session.stay(&server);
    sleep(Duration::from_millis(50));
    assert_eq!(session.number(&mut c, "idle-ms"), 0);
}

#[test]
fn grants_has_what_a_session_has() {
    let (_server, mut c, mut session) = Session::opened();
    let words = session.line("LOCK.SESSION GRANTS ID");
    assert_eq!(run(&mut c, &words).items().len(), 0);
    let token = session.acquire("k a PX 60000").token;
    session.run("LOCK.ACQUIRE k a").grant();
    session.acquire("s a SHARED PX 600000");
    run(&mut c, "LOCK.ACQUIRE s b SHARED PX 600000").grant();
    let grants = run(&mut c, &words).items().into_iter();
    let mut grants: Vec<_> = grants.map(Expect::fields).collect();
    grants.sort_by_key(|fields| fields["key"].clone().text());
    let [k, s] = <[_; 2]>::try_from(grants).expect("two grants");
    assert_eq!(k.len(), 5);
    let texts = [&k["key"], &k["owner"], &s["key"]].map(|text| text.clone().text());
    assert_eq!(texts, ["k", "a", "s"]);
    let found = [&k["token"], &k["holds"]];
    assert_eq!(found, [&Value::Int(token), &Value::Int(2)]);
    let left = k["ttl-ms"].clone().int();
    assert!((50_000..=60_000).contains(&left), "{left}");
    assert_eq!(run(&mut c, &format!("{words} COUNT 1")).items().len(), 1);
    run(&mut c, "PERSIST k").int();
    let grants = run(&mut c, &words).items().into_iter();
    let ends: Vec<_> = grants
        .map(|grant| grant.fields()["ttl-ms"].clone().int())
        .collect();
    assert!(ends.contains(&-1), "{ends:?}");
}

/// What GRANTS costs depends on what it returns.
#[test]
fn grants_looks_at_no_more_than_it_returns() {
    let (server, mut c) = started();
    let mut fastest = |grants: i64| {
        let session = Session::open(&server);
        session.acquire_all(&mut c, (0..grants).map(|n| format!("{grants}:{n} a")));
        let words = session.line("LOCK.SESSION GRANTS ID COUNT 1");
        let times = (0..50).map(|_| {
            let (time, reply) = timed(|| run(&mut c, &words));
            assert_eq!(reply.items().len(), 1);
            time
        });
        times.min().expect("a time")
    };
    let (one, many) = (fastest(1), fastest(30_000));
    assert!(many < 10 * one, "{many:?} instead of {one:?}");
}

#[test]
fn info_counts() {
    let (server, mut c, mut session) = Session::opened();
    let second = Session::open(&server);
    session.acquire("k a PX 1000");
    session.acquire("j a");
    assert_eq!(server.count("sessions"), 2);
    assert_eq!(server.count("sessions_detached"), 0);
    assert_eq!(server.count("session_grants"), 2);
    drop(second);
    eventually(|| server.count("sessions_detached") == 1, "the close");
    run(&mut c, "DEL j").int();
    assert_eq!(server.count("session_losses"), 1);
    assert_eq!(server.count("session_grants"), 1);
    eventually(|| server.count("session_renewals") > 0, "a renewal");
}

#[test]
fn holders_and_waiters_have_a_session_field() {
    let (server, mut c) = held();
    let _waiting = wait(&server, "k b BLOCK 0");
    for look in ["LOCK.HOLDERS k", "LOCK.WAITERS k"] {
        let fields = run(&mut c, look).items().remove(0).fields();
        assert_eq!(fields["session"], Value::Int(0), "{look}");
    }
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
}
