//! A connection whose own command, transaction or script ends a grant that it keeps gets the whole reply,
//! with its own rights to the end, and is closed then.

use crate::support::{Keeper, at_once, counted, run};
use redis::Connection;
use testbed::{Expect, Server, Talk, cmd, line};

/// More than a connection takes at once.
const BIG: usize = 8 << 20;

/// Ends the grant that a connection keeps.
type End = fn(&mut Keeper);

/// The ways in which a connection ends its own grant: each demands the whole reply.
const WAYS: [(&str, End); 6] = [
    ("a command", |keeper| {
        assert_eq!(run(keeper, "DEL k").int(), 1);
    }),
    ("a write over it", |keeper| {
        run(keeper, "SET k v").okay();
    }),
    ("a script", |keeper| {
        let script = "redis.call('DEL', KEYS[1]); return redis.call('GET', KEYS[2])";
        let whole = cmd!(**keeper, "EVAL", script, 2, "k", "big").bytes();
        assert_eq!(whole.len(), BIG);
    }),
    ("a script that goes on writing", |keeper| {
        let script = "redis.call('DEL', KEYS[1]); redis.call('SET', KEYS[1], 'v') \
                      return redis.call('GET', KEYS[1])";
        assert_eq!(cmd!(**keeper, "EVAL", script, 1, "k").text(), "v");
    }),
    ("a transaction", |keeper| {
        transaction(keeper, "DEL k");
    }),
    ("a transaction that empties the database", |keeper| {
        run(keeper, "MULTI").okay();
        assert_eq!(run(keeper, "GET big").text(), "QUEUED");
        assert_eq!(run(keeper, "FLUSHDB").text(), "QUEUED");
        assert_eq!(run(keeper, "GET k").text(), "QUEUED");
        let replies = run(keeper, "EXEC").items();
        assert_eq!(replies[0].clone().bytes().len(), BIG);
        replies[2].clone().nil();
    }),
];

fn transaction(keeper: &mut Keeper, ends: &str) {
    run(keeper, "MULTI").okay();
    for words in ["GET big", ends, "GET big", "SET k v", "GET big"] {
        assert_eq!(run(keeper, words).text(), "QUEUED");
    }
    let replies = run(keeper, "EXEC").items();
    let sizes = [0, 2, 4].map(|n: usize| replies[n].clone().bytes().len());
    assert_eq!(sizes, [BIG; 3]);
    assert_eq!(replies[1].clone().int(), 1);
    replies[3].clone().okay();
}

/// Whole replies, and then the end, each time.
fn ends_its_grant_in_each_way(c: &mut Connection, connect: impl Fn() -> Connection) {
    for (way, ends) in WAYS {
        run(c, "DEL k").int();
        cmd!(*c, "SET", "big", "x".repeat(BIG)).okay();
        let mut keeper = Keeper::of(connect());
        keeper.acquire("k a PX 600000 KEEP 600000");
        let closes = counted(c, "kept_closes");
        println!("{way}");
        ends(&mut keeper);
        keeper.is_closed();
        assert_eq!(counted(c, "kept_closes"), closes + 1, "{way}");
    }
}

#[test]
fn it_gets_the_whole_reply_and_is_closed() {
    let server = Server::start();
    let mut c = server.connection();
    ends_its_grant_in_each_way(&mut c, || server.connection());
}

#[test]
fn also_in_resp3() {
    let server = Server::start();
    let mut c = server.connection();
    ends_its_grant_in_each_way(&mut c, || server.connection_resp3());
}

/// The rights are those of its user to the end: a user with few, and no default user that could stand in.
#[test]
fn also_a_user_with_few_rights_where_the_default_user_is_off() {
    let server = Server::start();
    let mut c = server.connection();
    run(
        &mut c,
        "ACL SETUSER keeper on >secret ~k ~big +lock.acquire +del +eval +multi +exec +get +set +flushdb \
         +client|id",
    )
    .okay();
    run(&mut c, "ACL SETUSER default off").okay();
    ends_its_grant_in_each_way(&mut c, || server.connection_as("keeper", "secret"));
    // Nothing that the default user may was done in its place, and nothing it may not was refused.
    let denied = run(&mut c, "ACL LOG").items();
    assert_eq!(denied, []);
}

/// What it may not, it may not afterwards in the same transaction either.
#[test]
fn the_end_of_its_grant_gives_it_no_more_rights() {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "SET secret v").okay();
    run(
        &mut c,
        "ACL SETUSER keeper on >secret ~k +lock.acquire +del +eval +get +client|id",
    )
    .okay();
    let mut keeper = Keeper::of(server.connection_as("keeper", "secret"));
    keeper.acquire("k a PX 600000 KEEP 600000");
    let script = "redis.call('DEL', 'k'); local r = redis.pcall('GET', 'secret'); \
                  return type(r) == 'table' and r.err or r";
    let reply = cmd!(*keeper, "EVAL", script, 0).text();
    assert!(
        reply.contains("access") || reply.contains("permission"),
        "{reply}"
    );
    keeper.is_closed();
}

/// A client that reads slowly gets all of it too.
#[test]
fn a_slow_reader_gets_the_whole_reply() {
    let server = Server::start();
    let mut c = server.connection();
    cmd!(c, "SET", "big", "x".repeat(4 * BIG)).okay();
    let mut keeper = Keeper::on(&server, "k a PX 600000 KEEP 600000");
    keeper.post(&line("MULTI"));
    keeper.post(&line("DEL k"));
    keeper.post(&line("GET big"));
    keeper.post(&line("EXEC"));
    testbed::eventually(|| run(&mut c, "EXISTS k").int() == 0, "the lock to go");
    // It is not read yet, for longer than a tick takes.
    std::thread::sleep(std::time::Duration::from_millis(300));
    keeper.receive().okay();
    assert_eq!(keeper.receive().text(), "QUEUED");
    assert_eq!(keeper.receive().text(), "QUEUED");
    let replies = keeper.receive().items();
    assert_eq!(replies[1].clone().bytes().len(), 4 * BIG);
    keeper.is_closed();
}

/// What it has sent behind the end of its grant in the same write may be answered, and then it is closed.
#[test]
fn what_it_sent_behind_keeps_no_connection_open() {
    let server = Server::start();
    for ends in [
        "DEL k",
        "SET k v",
        "FLUSHALL",
        "PEXPIRE k 0",
        "REPLICAOF 127.0.0.1 1",
    ] {
        let mut keeper = Keeper::of(server.connection());
        let mut c = server.connection();
        run(&mut c, "DEL k").int();
        keeper.acquire("k a PX 600000 KEEP 600000");
        keeper.throw(&[ends, "PING"]);
        assert!(keeper.next().is_some(), "{ends}: no reply");
        while let Some(reply) = keeper.next() {
            assert_eq!(reply.text(), "PONG", "{ends}");
        }
    }
}

/// RELEASE and `KEEP 0` by itself are no loss.
#[test]
fn its_own_release_and_end_of_keeping_close_nothing() {
    let server = Server::start();
    let mut keeper = Keeper::on(&server, "k a PX 600000 KEEP 600000");
    let replies = at_once(&mut keeper, &["LOCK.RELEASE k a", "PING"]);
    assert!(replies.iter().all(Result::is_ok), "{replies:?}");
    keeper.acquire("k a PX 600000 KEEP 600000");
    let replies = at_once(&mut keeper, &["LOCK.RENEW k a KEEP 0", "DEL k", "PING"]);
    assert!(replies.iter().all(Result::is_ok), "{replies:?}");
    keeper.is_answered();
    assert_eq!(counted(&mut server.connection(), "kept_closes"), 0);
}
