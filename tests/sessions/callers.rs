//! Who may open, poll and name a session: users, databases, scripts, transactions, protocols.

use redis::Value;
use testbed::{
    Expect, Kind, Server, Session, Talk, await_renewals, cmd, line, polled, run, sessions_of,
    started, transaction,
};

#[test]
fn another_user_does_not_know_the_session() {
    let (server, mut c) = started();
    run(&mut c, "ACL SETUSER bob on >secret ~* +@all").okay();
    let mut session = Session::open(&server);
    let mut bob = server.connection_as("bob", "secret");
    session.acquire("k a");
    for words in [
        "LOCK.SESSION POLL ID",
        "LOCK.SESSION CLOSE ID",
        "LOCK.ACQUIRE j b SESSION ID",
        "LOCK.RENEW k a SESSION ID",
    ] {
        let words = session.line(words);
        run(&mut bob, &words).refused("NOSESSION");
        let script = "return redis.call(unpack(ARGV))";
        cmd!(bob, "EVAL", script, 0).refused("ERR");
        let reply = cmd!(bob, "EVAL", script, 0, testbed::words(&words));
        let text = reply.expect_err("an error");
        let is_told = text.text().contains("NOSESSION") || words.contains("POLL");
        assert!(is_told, "{words}: {text}");
    }
    // GRANTS works for any session, and so does KILL.
    let grants = session.line("LOCK.SESSION GRANTS ID");
    assert_eq!(run(&mut bob, &grants).items().len(), 1);
    assert_eq!(session.poll().grants, 1);
    let mut mine = Session::open_on(bob, "");
    let (mut c, words) = (server.connection(), mine.line("LOCK.SESSION POLL ID"));
    run(&mut c, &words).refused("NOSESSION");
    assert_eq!(mine.poll().grants, 0);
    mine.on(&mut c, "LOCK.SESSION KILL ID").int();
    mine.run("LOCK.SESSION POLL ID").refused("NOSESSION");
}

#[test]
fn from_another_database_the_session_is_not_known() {
    let (server, mut c, mut session) = Session::opened();
    run(&mut c, "SELECT 3").okay();
    for words in [
        "LOCK.SESSION POLL ID",
        "LOCK.SESSION CLOSE ID",
        "LOCK.ACQUIRE k a SESSION ID",
    ] {
        run(&mut c, &session.line(words)).refused("NOSESSION");
    }
    let mut third = Session::open_on(c, "");
    third.acquire("k a");
    assert_eq!(third.number(&mut server.connection(), "db"), 3);
    assert_eq!(third.poll().grants, 1);
    assert_eq!(session.poll().grants, 0);
    // GRANTS and KILL work from any database, and leave the caller where it is.
    let grants = session.run(&third.line("LOCK.SESSION GRANTS ID")).items();
    assert_eq!(grants.len(), 1);
    run(&mut session, "SET here 1").okay();
    let killed = session.run(&third.line("LOCK.SESSION KILL ID")).int();
    assert_eq!(killed, 1);
    assert_eq!(run(&mut session, "GET here").text(), "1");
    assert_eq!(run(&mut third, "EXISTS k here").int(), 0);
}

#[test]
fn scripts_and_functions_have_no_connection() {
    let (server, mut c, mut session) = Session::opened();
    for call in [
        "'LOCK.SESSION', 'OPEN'".to_owned(),
        format!("'LOCK.SESSION', 'POLL', '{}'", session.id),
    ] {
        let script = format!("return redis.call({call})");
        cmd!(c, "EVAL", script, 0).refused("ERR");
        let library = format!(
            "#!lua name=s\nredis.register_function('s', function() return redis.call({call}) end)"
        );
        cmd!(c, "FUNCTION", "LOAD", "REPLACE", library).text();
        cmd!(c, "FCALL", "s", 0).refused("ERR");
    }
    assert_eq!(server.count("sessions"), 1);
    // All else works there.
    let mut call = |words: &str| {
        let words = testbed::words(&session.line(words));
        cmd!(c, "EVAL", "return redis.call(unpack(ARGV))", 0, words)
    };
    call("LOCK.ACQUIRE k a SESSION ID").grant();
    assert_eq!(call("LOCK.SESSION GRANTS ID").items().len(), 1);
    assert_eq!(sessions_of(&mut server.connection(), "k"), [session.id]);
    assert_eq!(call("LOCK.SESSION CLOSE ID").int(), 1);
    session.run("LOCK.SESSION POLL ID").refused("NOSESSION");
    assert_eq!(run(&mut c, "EXISTS k").int(), 0);
}

#[test]
fn in_a_transaction_all_of_it_works_and_nothing_waits() {
    let (_server, _c, mut session) = Session::opened();
    let lines = [
        "LOCK.ACQUIRE k a SESSION ID",
        "DEL k",
        "LOCK.SESSION POLL ID BLOCK 0",
        "LOCK.SESSION POLL ID BLOCK 0",
        "LOCK.SESSION OPEN",
        "LOCK.SESSION GRANTS ID",
        "LOCK.SESSION CLOSE ID",
        "LOCK.SESSION POLL ID BLOCK 0",
    ]
    .map(|words| session.line(words));
    let mut replies = transaction(&mut session, &lines).into_iter();
    let mut next = || replies.next().expect("a reply");
    let token = next().grant().token;
    next().int();
    let first = polled(next().reply());
    assert_eq!(first.events, [format!("1 lost k a {token} deleted")]);
    assert_eq!(polled(next().reply()).events, Vec::<String>::new());
    next().int();
    assert_eq!(next().items(), Vec::<Value>::new());
    assert_eq!(next().int(), 0);
    next().refused("NOSESSION");
}

#[test]
fn the_reply_is_a_map_in_resp3() {
    let server = Server::start();
    let mut session = Session::open_on(server.connection_resp3(), "NAME three");
    session.acquire("k a PX 60000");
    for words in ["LOCK.SESSION POLL ID", "LOCK.SESSION POLL ID BLOCK 1"] {
        match session.run(words).value() {
            Value::Map(pairs) => assert_eq!(pairs.len(), 3),
            other => panic!("a map expected, not {other:?}"),
        }
    }
    for words in ["LOCK.SESSION GRANTS ID", "LOCK.SESSION LIST"] {
        let items = session.run(words).items();
        assert!(matches!(items[..], [Value::Map(_)]), "{items:?}");
    }
    run(&mut session, "DEL k").int();
    assert_eq!(session.poll().events.len(), 1);
}

/// A connection that has subscribed by RESP3 gets messages and replies.
#[test]
fn a_subscriber_polls_where_the_server_lets_it_wait() {
    let server = Server::start();
    let mut session = Session::open_on(server.connection_resp3(), "");
    session.acquire("k a");
    run(&mut session, "DEL k").int();
    assert_eq!(session.poll().events.len(), 1);
    session.post(&line("SUBSCRIBE news"));
    session.receive().value();
    let mut c = server.connection();
    match session.run("LOCK.SESSION POLL ID BLOCK 1") {
        Ok(reply) => assert_eq!(polled(Ok(reply)).events.len(), 0),
        Err(refusal) => {
            assert_eq!(Server::version().kind, Kind::Valkey);
            assert!(refusal.text().contains("subscribed"), "{refusal}");
            // It acknowledged nothing.
            assert_eq!(session.number(&mut c, "events"), 1);
        }
    }
    // Without a wait it polls on every server.
    assert_eq!(session.poll().events.len(), 0);
}

#[test]
fn rights_are_those_of_each_subcommand() {
    let (server, mut c) = started();
    let rules =
        "ACL SETUSER few on >secret ~k* +lock.session|open +lock.session|poll +lock.acquire";
    run(&mut c, rules).okay();
    let mut session = Session::open_on(server.connection_as("few", "secret"), "");
    session.acquire("k a");
    for words in [
        "LOCK.ACQUIRE other a SESSION ID",
        "LOCK.SESSION GRANTS ID",
        "LOCK.SESSION CLOSE ID",
        "LOCK.SESSION LIST",
        "LOCK.SESSION KILL ID",
        "LOCK.SESSION HELP",
    ] {
        session.run(words).refused("NOPERM");
    }
    assert_eq!(session.poll().grants, 1);
    if Server::version().has_module_categories() {
        run(&mut c, "ACL SETUSER most on >secret ~* +@lock -@admin").okay();
        let mut most = Session::open_on(server.connection_as("most", "secret"), "");
        most.run("LOCK.SESSION GRANTS ID").items();
        most.run("LOCK.SESSION LIST").refused("NOPERM");
        most.run("LOCK.SESSION KILL ID").refused("NOPERM");
        most.run("LOCK.SESSION CLOSE ID").int();
    }
}

/// GRANTS shows the keys that the caller may read.
#[test]
fn grants_are_those_of_the_keys_that_the_caller_may_read() {
    let (server, _c, mut session) = Session::opened();
    for key in ["mine:1", "mine:2", "theirs:1"] {
        session.acquire(&format!("{key} a"));
    }
    run(&mut session, "ACL SETUSER few on >secret ~mine:* +@all").okay();
    let mut few = server.connection_as("few", "secret");
    let words = session.line("LOCK.SESSION GRANTS ID");
    let keys = |items: Vec<Value>| {
        let key = |item: Value| item.fields()["key"].clone().text();
        let mut keys: Vec<_> = items.into_iter().map(key).collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(run(&mut few, &words).items()), ["mine:1", "mine:2"]);
    assert_eq!(keys(run(&mut session, &words).items()).len(), 3);
    let script = "return redis.call('LOCK.SESSION', 'GRANTS', ARGV[1])";
    assert_eq!(cmd!(few, "EVAL", script, 0, session.id).items().len(), 2);
}

/// Valkey from 9.1 can limit a user to some databases.
#[test]
fn a_user_of_some_databases_has_sessions_there() {
    testbed::needs!(Server::version().is_valkey_from(9, 1));
    let (server, mut c) = started();
    run(&mut c, "ACL SETUSER ann on >secret ~* +@all db=0,2").okay();
    run(&mut c, "ACL SETUSER few on >secret ~* +@all db=0").okay();
    let mut second = server.connection_as("ann", "secret");
    run(&mut second, "SELECT 2").okay();
    let mut session = Session::open_on(second, "");
    session.acquire("k a PX 1000");
    let mut few = server.connection_as("few", "secret");
    let words = session.line("LOCK.SESSION GRANTS ID");
    assert_eq!(run(&mut few, &words).items(), Vec::<Value>::new());
    assert_eq!(run(&mut c, &words).items().len(), 1);
    // Rights are judged at the call that put the grant into the session, not at renewals.
    run(&mut c, "ACL SETUSER ann resetdbs db=0").okay();
    await_renewals(&server, 2);
    session.run("LOCK.ACQUIRE j a SESSION ID").refused("NOPERM");
    assert_eq!(session.poll().grants, 1);
}
