//! Connections of every kind keep grants, and are closed: RESP3, without replies, subscribed, in a
//! transaction, blocked, paused.

use crate::support::{Keeper, await_renewals, count, kept_by, run};
use redis::Connection;
use testbed::{Expect, Server, Talk, cmd, eventually, line};

/// Demands that the connection is closed when its grant is lost.
#[track_caller]
fn hears_of_the_loss(server: &Server, mut keeper: Keeper) {
    let mut c = server.connection();
    assert_eq!(kept_by(&mut c)[0].0, keeper.id);
    await_renewals(server, 1);
    run(&mut c, "DEL k").int();
    keeper.throw(&["PING"]);
    keeper.is_closed();
}

fn keeper(server: &Server, connection: Connection) -> Keeper {
    let mut keeper = Keeper::of(connection);
    keeper.acquire("k a PX 1000 KEEP 60000");
    assert_eq!(count(server, "kept"), 1);
    keeper
}

#[test]
fn in_resp3() {
    let server = Server::start();
    hears_of_the_loss(&server, keeper(&server, server.connection_resp3()));
}

#[test]
fn without_replies() {
    let server = Server::start();
    let mut c = server.connection();
    for mode in ["CLIENT REPLY OFF", "CLIENT REPLY SKIP"] {
        let mut keeper = Keeper::of(server.connection());
        keeper.post(&line(mode));
        keeper.post(&line("LOCK.ACQUIRE k a PX 1000 KEEP 60000"));
        eventually(|| kept_by(&mut c).len() == 1, "the grant");
        hears_of_the_loss(&server, keeper);
    }
}

/// Its own end of the grant, with no reply to be sent.
#[test]
fn without_replies_by_its_own_hand() {
    let server = Server::start();
    let mut keeper = keeper(&server, server.connection());
    keeper.post(&line("CLIENT REPLY OFF"));
    keeper.throw(&["DEL k"]);
    keeper.is_closed();
}

#[test]
fn subscribed() {
    let server = Server::start();
    for connection in [server.connection(), server.connection_resp3()] {
        let mut keeper = keeper(&server, connection);
        keeper.post(&line("SUBSCRIBE news"));
        keeper.receive().value();
        hears_of_the_loss(&server, keeper);
    }
}

#[test]
fn in_a_transaction() {
    let server = Server::start();
    let mut keeper = keeper(&server, server.connection());
    run(&mut keeper, "MULTI").okay();
    run(&mut keeper, "SET never v").value();
    hears_of_the_loss(&server, keeper);
    assert_eq!(run(&mut server.connection(), "EXISTS never").int(), 0);
}

#[test]
fn blocked() {
    let server = Server::start();
    let mut keeper = keeper(&server, server.connection());
    keeper.post(&line("BLPOP nothing 0"));
    hears_of_the_loss(&server, keeper);
}

#[test]
fn monitoring() {
    let server = Server::start();
    let mut keeper = keeper(&server, server.connection());
    keeper.post(&line("MONITOR"));
    keeper.receive().okay();
    let mut c = server.connection();
    run(&mut c, "DEL k").int();
    while keeper.next().is_some() {}
}

/// Of a client whose commands wait for the end of a pause.
#[test]
fn paused() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = keeper(&server, server.connection());
    run(&mut c, "LOCK.RENEW k a PX 60000").grant();
    run(&mut c, "CLIENT PAUSE 60000 WRITE").okay();
    keeper.throw(&["SET v 1"]);
    eventually(
        || {
            cmd!(c, "CLIENT", "LIST", "ID", keeper.id)
                .text()
                .contains("cmd=set")
        },
        "it to be paused",
    );
    run(&mut c, "LOCK.INFO k").lock_info();
    cmd!(c, "CLIENT", "UNPAUSE").okay();
    keeper.next().expect("a reply").okay();
    run(&mut c, "CLIENT PAUSE 60000 WRITE").okay();
    keeper.throw(&["SET v 2"]);
    run(&mut c, "LOCK.INFO k").lock_info();
    run(&mut c, "REPLICAOF 127.0.0.1 1").reply().ok();
    cmd!(c, "CLIENT", "UNPAUSE").okay();
    keeper.is_closed();
}

/// A user who may do nothing more: rights are judged at the call that asks for KEEP, not at renewals.
#[test]
fn of_a_user_who_has_lost_its_rights() {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "ACL SETUSER u on >p ~* +@all").okay();
    let keeper = keeper(&server, server.connection_as("u", "p"));
    run(&mut c, "ACL SETUSER u resetkeys -@all").okay();
    await_renewals(&server, 3);
    hears_of_the_loss(&server, keeper);
}

/// A user that is deleted loses its connections, and releases nothing.
#[test]
fn of_a_user_who_is_deleted() {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "ACL SETUSER u on >p ~* +@all").okay();
    let mut keeper = Keeper::of(server.connection_as("u", "p"));
    keeper.acquire("k a PX 60000 KEEP 60000");
    run(&mut c, "ACL DELUSER u").int();
    keeper.is_closed();
    eventually(|| kept_by(&mut c) == [(0, 0)], "nobody to keep it");
    assert_eq!(count(&server, "kept_closes"), 0);
}
