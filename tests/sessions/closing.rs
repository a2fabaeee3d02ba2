//! CLOSE and KILL.

use std::time::Duration;
use testbed::{Copies, Expect, Session, Talk, at_once, eventually, run, wait, within};

#[test]
fn all_grants_are_released_with_all_holds() {
    for subcommand in ["CLOSE", "KILL"] {
        let (server, mut c, mut session) = Session::opened();
        session.acquire("k a");
        session.run("LOCK.ACQUIRE k a").grant();
        session.acquire("s a SHARED");
        session.acquire("p a");
        run(&mut c, "PERSIST p").int();
        run(&mut c, "LOCK.ACQUIRE s b SHARED").grant();
        let mut next = wait(&server, "k next BLOCK 0");
        let words = session.line(&format!("LOCK.SESSION {subcommand} ID"));
        assert_eq!(run(&mut c, &words).int(), 3);
        assert_eq!(next.receive().grant().owner, b"next");
        assert_eq!(run(&mut c, "EXISTS p").int(), 0);
        assert_eq!(run(&mut c, "LOCK.HOLDERS s").items().len(), 1);
        run(&mut c, &words).refused("NOSESSION");
        session.run("LOCK.SESSION POLL ID").refused("NOSESSION");
        let fields = [
            "sessions",
            "session_grants",
            "session_losses",
            "sessions_silent",
        ];
        let counts = fields.map(|field| server.count(field));
        assert_eq!(counts, [0; 4], "{fields:?}");
    }
}

#[test]
fn a_waiting_poll_is_answered() {
    let (server, mut c, mut session) = Session::opened();
    session.stay(&server);
    session.on(&mut c, "LOCK.SESSION CLOSE ID").int();
    session.connection.receive().refused("NOSESSION");
    assert_eq!(run(&mut session, "PING").text(), "PONG");
}

/// The grants of an earlier session that are still to be released do not count among those.
#[test]
fn each_close_releases_its_own_grants_before_its_reply() {
    let (server, mut c, many) = Session::opened();
    let one = Session::open(&server);
    many.acquire_all(&mut c, (0..5000).map(|n| format!("k{n} a")));
    one.acquire_all(&mut c, ["one a".to_owned()]);
    let [first, second] = [&many, &one].map(|session| session.line("LOCK.SESSION CLOSE ID"));
    let replies = at_once(&mut c, &[&first, &second, "EXISTS one", "DBSIZE"]);
    let replies: Vec<_> = replies.into_iter().map(Expect::int).collect();
    assert_eq!(replies[..3], [5000, 1, 0]);
    assert!(replies[3] > 0, "{} are left", replies[3]);
}

/// Up to 100 before the reply, more in slices; each before a LOCK command on it.
#[test]
fn many_are_released_in_slices() {
    const GRANTS: i64 = 20_000;
    let (_server, mut c, session) = Session::opened();
    session.acquire_all(&mut c, (0..GRANTS).map(|n| format!("k{n} a PX 600000")));
    let close = session.line("LOCK.SESSION CLOSE ID");
    let middle = GRANTS / 2;
    let commands = [
        close,
        "DBSIZE".to_owned(),
        format!("LOCK.ACQUIRE k{middle} b"),
        format!("LOCK.INFO k{}", middle + 1),
        format!("LOCK.RELEASE k{} a", middle + 2),
    ];
    let mut replies = at_once(&mut c, &commands).into_iter();
    let mut next = || replies.next().expect("a reply");
    assert_eq!(next().int(), GRANTS);
    let left = next().int();
    assert!((1..=GRANTS - 100).contains(&left), "{left}");
    assert_eq!(next().grant().owner, b"b");
    next().nil();
    next().refused("NOTHELD");
    let limit = Duration::from_secs(20);
    within(limit, || run(&mut c, "DBSIZE").int() == 1, "the releases");
}

#[test]
fn a_pause_delays_the_rest() {
    let (_server, mut c, session) = Session::opened();
    session.acquire_all(&mut c, (0..5000).map(|n| format!("k{n} a PX 600000")));
    let close = session.line("LOCK.SESSION CLOSE ID");
    at_once(&mut c, &[&close, "CLIENT PAUSE 60000 WRITE"]);
    let left = run(&mut c, "DBSIZE").int();
    assert!(left > 0, "all released before the pause");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(run(&mut c, "DBSIZE").int(), left);
    run(&mut c, "CLIENT UNPAUSE").okay();
    eventually(|| run(&mut c, "DBSIZE").int() == 0, "the rest");
}

/// The releases reach replicas and the append-only file.
#[test]
fn replicas_and_the_aof_follow() {
    let (copies, mut c) = Copies::started();
    let mut session = Session::open(&copies);
    session.acquire_all(&mut c, (0..300).map(|n| format!("k{n} a PX 600000")));
    let mut next = wait(&copies, "k7 next PX 600000 BLOCK 0");
    session.run("LOCK.SESSION CLOSE ID").int();
    next.receive().grant();
    eventually(|| run(&mut c, "DBSIZE").int() == 1, "the releases");
    copies.agree();
}
