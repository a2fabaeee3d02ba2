//! POLL: what is answered, what is acknowledged, and when a wait ends.

use crate::support::{
    Session, at_once, count, end_of_lease, is_blocked, polled, run, timed, while_stopped,
};
use std::time::Duration;
use testbed::state::unix_ms;
use testbed::{Expect, Kind, Server, Talk, cmd, eventually, line};

#[test]
fn without_grants_nothing_can_end_by_time() {
    let server = Server::start();
    let mut session = Session::open(&server);
    let polled = session.poll();
    assert_eq!((polled.sure_ms, polled.grants), (-1, 0));
    assert_eq!(polled.events, Vec::<String>::new());
    session.run("LOCK.ACQUIRE k a PX 60000 SESSION ID").grant();
    run(&mut session, "PERSIST k").int();
    // It is seen at the renewal or when the lease would have ended.
    let polled = session.poll();
    assert!(
        polled.sure_ms == -1 || polled.sure_ms > 50_000,
        "{polled:?}"
    );
    assert_eq!(polled.grants, 1);
}

#[test]
fn what_is_sure_is_what_is_left_of_the_shortest_lease() {
    let server = Server::start();
    let mut session = Session::open(&server);
    session
        .run("LOCK.ACQUIRE long a PX 600000 SESSION ID")
        .grant();
    let sure = session.poll().sure_ms;
    assert!((590_000..=600_000).contains(&sure), "{sure}");
    session
        .run("LOCK.ACQUIRE short a PX 30000 SESSION ID")
        .grant();
    let sure = session.poll().sure_ms;
    assert!((25_000..=30_000).contains(&sure), "{sure}");
    session.run("LOCK.RELEASE short a").int();
    assert!(session.poll().sure_ms > 590_000);
}

#[test]
fn what_is_sure_ends_with_the_first_of_equal_leases() {
    let server = Server::start();
    let mut session = Session::open(&server);
    session.run("LOCK.ACQUIRE k a PX 600000 SESSION ID").grant();
    let end = end_of_lease(&mut session, "k");
    session.poll_for(100);
    session.run("LOCK.ACQUIRE j a PX 600000 SESSION ID").grant();
    let sent = unix_ms();
    let sure = session.poll().sure_ms;
    assert!(sure <= end - sent, "{sure}");
}

/// The time that the call waited counts: the client knows when it sent the call.
#[test]
fn the_wait_counts_for_what_is_sure() {
    let server = Server::start();
    let mut session = Session::open(&server);
    session.run("LOCK.ACQUIRE k a PX 600000 SESSION ID").grant();
    let (polled, waited) = timed(|| session.poll_for(700));
    let waited = i64::try_from(waited.as_millis()).expect("short");
    assert!(waited >= 700);
    assert_eq!(polled.events, Vec::<String>::new());
    assert!(
        (600_000 - 100..=600_000 + 1).contains(&polled.sure_ms),
        "{} after {waited}",
        polled.sure_ms
    );
}

#[test]
fn an_event_is_answered_until_it_is_acknowledged() {
    let server = Server::start();
    let mut session = Session::open(&server);
    let mut c = server.connection();
    let tokens: Vec<_> = (1..=3)
        .map(|n| {
            let words = format!("LOCK.ACQUIRE k{n} a SESSION ID");
            session.run(&words).grant().token
        })
        .collect();
    for n in 1..=2 {
        run(&mut c, &format!("DEL k{n}")).int();
    }
    let lost = |n: usize| format!("{n} lost k{n} a {} deleted", tokens[n - 1]);
    let first = session.poll();
    assert_eq!(first.events, [lost(1), lost(2)]);
    assert_eq!(first.grants, 1);
    assert_eq!(session.number(&mut c, "events"), 2);
    // A refused call acknowledges nothing.
    session.run("LOCK.SESSION POLL ID BLOCK x").refused("ERR");
    assert_eq!(session.number(&mut c, "events"), 2);
    assert_eq!(session.poll().events, Vec::<String>::new());
    assert_eq!(session.number(&mut c, "events"), 0);
    run(&mut c, "DEL k3").int();
    assert_eq!(session.poll().events, [lost(3)]);
    assert_eq!(count(&server, "session_losses"), 3);
    // One that answers at once acknowledges too.
    session.run("LOCK.ACQUIRE k4 a SESSION ID").grant();
    run(&mut c, "DEL k4").int();
    let events = session.poll_for(60_000).events;
    assert!(events[0].starts_with("4 lost k4 a"), "{events:?}");
}

/// More than 1000 events come in parts, and nothing is sure until the last.
#[test]
fn a_reply_has_at_most_a_thousand_events() {
    let server = Server::start();
    let mut session = Session::open(&server);
    session
        .run("LOCK.ACQUIRE kept a PX 600000 SESSION ID")
        .grant();
    let lines: Vec<_> = (0..2500)
        .map(|n| session.line(&format!("LOCK.ACQUIRE k{n} a SESSION ID")))
        .chain((0..2500).map(|n| format!("DEL k{n}")))
        .collect();
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    at_once(&mut server.connection(), &lines);
    for (events, first) in [(1000, 1), (1000, 1001), (500, 2001)] {
        let polled = session.poll_for(60_000);
        assert_eq!(polled.events.len(), events);
        assert!(polled.events[0].starts_with(&format!("{first} lost")));
        assert_eq!(polled.sure_ms == 0, events == 1000, "{}", polled.sure_ms);
        assert_eq!(polled.grants, 1);
    }
    assert_eq!(session.poll().events.len(), 0);
}

#[test]
fn a_waiting_poll_is_answered_at_once() {
    let server = Server::start();
    let mut session = Session::open(&server);
    let mut c = server.connection();
    let token = session
        .run("LOCK.ACQUIRE k a PX 600000 SESSION ID")
        .grant()
        .token;
    session.wait_in_poll(&server, 60_000);
    let (polled, took) = timed(|| {
        run(&mut c, "DEL k").int();
        session.polled()
    });
    assert_eq!(polled.events, [format!("1 lost k a {token} deleted")]);
    assert_eq!((polled.sure_ms, polled.grants), (-1, 0));
    assert!(took < Duration::from_secs(5), "{took:?}");
}

/// All that happens in one iteration of the server's loop is in one reply.
#[test]
fn one_reply_carries_what_came_together() {
    let server = Server::start();
    let mut session = Session::open(&server);
    let mut c = server.connection();
    for n in 0..64 {
        session
            .run(&format!("LOCK.ACQUIRE k{n} a PX 600000 SESSION ID"))
            .grant();
    }
    session.wait_in_poll(&server, 60_000);
    let keys: Vec<_> = (0..64).map(|n| format!("k{n}")).collect();
    run(&mut c, &format!("DEL {}", keys.join(" "))).int();
    assert_eq!(session.polled().events.len(), 64);
}

#[test]
fn a_wait_ends_by_its_own_time() {
    let server = Server::start();
    let mut session = Session::open_on(server.connection(), "TIMEOUT 1200");
    for (ms, least, most) in [
        (50, 50, 500),
        (300, 300, 590),
        (60_000, 595, 1500),
        (0, 595, 1500),
    ] {
        let (polled, took) = timed(|| session.poll_for(ms));
        assert_eq!(polled.events, Vec::<String>::new());
        let took = took.as_millis();
        assert!((least..most).contains(&took), "{ms}: {took}");
    }
}

/// After a third of what is left of the shortest lease, but not before 100 ms.
#[test]
fn a_wait_ends_after_a_third_of_the_shortest_lease() {
    let server = Server::start();
    let mut session = Session::open(&server);
    session.run("LOCK.ACQUIRE k a PX 2400 SESSION ID").grant();
    let (_, took) = timed(|| session.poll_for(60_000));
    let took = took.as_millis();
    assert!((500..1400).contains(&took), "{took}");
}

/// A short lease that joins, or one that becomes short, ends a wait early.
#[test]
fn a_short_lease_that_joins_ends_the_wait_early() {
    let server = Server::start();
    for words in [
        "LOCK.ACQUIRE new a PX 1500 SESSION ID",
        "LOCK.RENEW k a PX 1500",
        "LOCK.RENEW none a PX 1500 SESSION ID",
    ] {
        let mut session = Session::open(&server);
        let mut c = server.connection();
        run(&mut c, "FLUSHALL").okay();
        session.run("LOCK.ACQUIRE k a PX 600000 SESSION ID").grant();
        run(&mut c, "LOCK.ACQUIRE none a PX 600000").grant();
        session.wait_in_poll(&server, 60_000);
        let words = session.line(words);
        let (polled, took) = timed(|| {
            run(&mut c, &words).grant();
            session.polled()
        });
        assert_eq!(polled.events, Vec::<String>::new(), "{words}");
        let took = took.as_millis();
        assert!((450..1500).contains(&took), "{words}: {took}");
        assert!(polled.sure_ms > 500, "{words}: {polled:?}");
    }
}

#[test]
fn an_unblocked_poll_has_no_events() {
    let server = Server::start();
    let mut session = Session::open(&server);
    let mut c = server.connection();
    session.run("LOCK.ACQUIRE k a PX 600000 SESSION ID").grant();
    session.wait_in_poll(&server, 60_000);
    let client = session.client_id(&mut c);
    let version = Server::version();
    if version.kind == Kind::Redis && !version.is_redis_from(7, 4) {
        for how in ["TIMEOUT", "ERROR"] {
            assert_eq!(cmd!(c, "CLIENT", "UNBLOCK", client, how).int(), 0);
        }
        assert!(is_blocked(&mut c, client));
        return;
    }
    assert_eq!(cmd!(c, "CLIENT", "UNBLOCK", client).int(), 1);
    let answer = session.polled();
    assert_eq!(answer.events, Vec::<String>::new());
    assert_eq!(answer.grants, 1);
    assert!(answer.sure_ms > 500_000);
    session.wait_in_poll(&server, 60_000);
    assert_eq!(cmd!(c, "CLIENT", "UNBLOCK", client, "ERROR").int(), 1);
    session.connection.receive().refused("UNBLOCKED");
    run(&mut c, "DEL k").int();
    assert_eq!(session.poll().events.len(), 1);
}

/// The server drops a reply that it has not sent when the client is unblocked with an error in the same iteration of
/// its event loop.
#[test]
fn an_answer_that_is_dropped_acknowledges_nothing() {
    let server = Server::start();
    let mut session = Session::open(&server);
    let mut c = server.connection();
    let client = session.client_id(&mut c);
    let version = Server::version();
    let drops = version.kind != Kind::Redis || version.is_redis_from(7, 4);
    for event in 1..=20 {
        session.run("LOCK.ACQUIRE k a SESSION ID").grant();
        run(&mut c, "DEL k").int();
        while_stopped(&server, || {
            session.post_poll(60_000);
            c.post(&line(&format!("CLIENT UNBLOCK {client} ERROR")));
        });
        let is_dropped = c.receive().int() == 1;
        let reply = session.connection.receive();
        if is_dropped {
            reply.refused("UNBLOCKED");
        } else {
            assert_eq!(polled(reply).events.len(), 1);
        }
        // The next POLL, which acknowledges what is answered now.
        let events = session.poll().events;
        assert_eq!(events.len(), usize::from(is_dropped), "event {event}");
        if is_dropped || !drops {
            return;
        }
    }
    panic!("the POLL was not answered before it was unblocked");
}

#[test]
fn a_waiting_poll_is_no_waiting_call() {
    let server = Server::start();
    let mut session = Session::open(&server);
    let mut c = server.connection();
    run(&mut c, "CONFIG SET lock.max-waiters 0").okay();
    run(&mut c, "CONFIG SET lock.max-waiters-total 0").okay();
    session.wait_in_poll(&server, 60_000);
    assert_eq!(count(&server, "waiting"), 0);
    assert_eq!(session.number(&mut c, "waiting"), 0);
}

/// A POLL runs in a pause of writes, and in a full memory.
#[test]
fn a_poll_is_answered_where_nothing_may_be_written() {
    let server = Server::start();
    let mut session = Session::open(&server);
    let mut c = server.connection();
    session.run("LOCK.ACQUIRE k a PX 600000 SESSION ID").grant();
    run(&mut c, "CLIENT PAUSE 60000 WRITE").okay();
    assert_eq!(session.poll().grants, 1);
    assert_eq!(session.poll_for(100).grants, 1);
    run(&mut c, "CLIENT UNPAUSE").okay();
    run(&mut c, "CONFIG SET maxmemory 1").okay();
    assert_eq!(session.poll_for(100).grants, 1);
    session.run("LOCK.ACQUIRE j a SESSION ID").refused("OOM");
    session.run("LOCK.RENEW k a SESSION ID").grant();
    Session::open(&server).poll();
    assert_eq!(session.run("LOCK.SESSION CLOSE ID").int(), 1);
}

/// Replies that come while another command is in the same batch.
#[test]
fn polls_in_a_pipeline_are_answered_in_order() {
    let server = Server::start();
    let mut session = Session::open(&server);
    let lines = [
        "LOCK.ACQUIRE k a SESSION ID",
        "LOCK.SESSION POLL ID BLOCK 200",
        "DEL k",
        "LOCK.SESSION POLL ID BLOCK 60000",
        "PING",
        "LOCK.SESSION POLL ID",
    ]
    .map(|words| session.line(words));
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let mut replies = at_once(&mut session, &lines).into_iter();
    let mut next = || replies.next().expect("a reply");
    next().grant();
    assert_eq!(polled(next()).events.len(), 0);
    assert_eq!(next().int(), 1);
    assert_eq!(polled(next()).events.len(), 1);
    assert_eq!(next().text(), "PONG");
    assert_eq!(polled(next()).events.len(), 0);
}

/// The client goes while it waits, and so does its POLL.
#[test]
fn a_client_that_goes_while_it_waits_leaves_the_session_detached() {
    let server = Server::start();
    let mut session = Session::open(&server);
    let mut c = server.connection();
    session.run("LOCK.ACQUIRE k a PX 600000 SESSION ID").grant();
    session.wait_in_poll(&server, 60_000);
    let id = session.id;
    drop(session);
    eventually(|| count(&server, "sessions_detached") == 1, "the close");
    run(&mut c, "DEL k").int();
    let mut again = Session { id, connection: c };
    assert_eq!(again.poll().events.len(), 1);
    assert_eq!(count(&server, "sessions_detached"), 0);
    again.connection.post(&line("PING"));
    assert_eq!(again.connection.receive().text(), "PONG");
}
