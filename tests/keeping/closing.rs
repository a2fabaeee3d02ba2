//! When the connection closes, for whatever reason, nothing is released: the renewals stop, and the lease
//! that is left is the time to come back.

use crate::support::{Keeper, await_renewals, count, end_of_lease, kept_by, run, stands};
use socket2::{SockRef, Socket};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;
use testbed::state::unix_ms;
use testbed::{Expect, Load, Server, cmd, eventually};

/// A socket that keeps `k`, and its client's id.
fn keeps(server: &Server) -> (TcpStream, i64) {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).expect("a server");
    stream
        .write_all(b"LOCK.ACQUIRE k a PX 60000 KEEP 60000\r\n")
        .expect("sent");
    let mut c = server.connection();
    eventually(|| kept_by(&mut c).len() == 1, "the grant");
    let mut reply = [0; 16];
    stream.read_exact(&mut reply).expect("the grant");
    (stream, kept_by(&mut c)[0].0)
}

/// How a connection comes to its end.
type End = fn(&Server, TcpStream, i64);

const ENDS: [(&str, End); 6] = [
    ("FIN", |_, stream, _| {
        stream.shutdown(std::net::Shutdown::Both).expect("a socket");
    }),
    ("RST", |_, stream, _| {
        let socket = SockRef::from(&stream);
        socket.set_linger(Some(Duration::ZERO)).expect("a socket");
        drop(Socket::from(stream));
    }),
    ("CLIENT KILL", |server, _stream, id| {
        cmd!(server.connection(), "CLIENT", "KILL", "ID", id).int();
    }),
    ("QUIT", |_, mut stream, _| {
        stream.write_all(b"QUIT\r\n").expect("sent");
        std::mem::forget(stream);
    }),
    ("a protocol error", |_, mut stream, _| {
        stream.write_all(b"*1\r\nnot a length\r\n").expect("sent");
        std::mem::forget(stream);
    }),
    ("timeout", |server, stream, _| {
        cmd!(server.connection(), "CONFIG", "SET", "timeout", 1).okay();
        std::mem::forget(stream);
    }),
];

#[test]
fn nothing_is_released_and_the_renewals_stop() {
    for (name, end) in ENDS {
        let server = Server::start();
        let mut c = server.connection();
        let (stream, id) = keeps(&server);
        let token = run(&mut c, "LOCK.FENCE k").int();
        run(&mut c, "LOCK.RENEW k a PX 60000").grant();
        end(&server, stream, id);
        let mut c = server.connection();
        eventually(
            || {
                // With a time-out, this connection might be closed as well.
                c = server.connection();
                kept_by(&mut c) == [(0, 0)]
            },
            name,
        );
        stands(&mut c, token);
        assert_eq!(
            (count(&server, "kept"), count(&server, "kept_closes")),
            (0, 0),
            "{name}"
        );
        let end = end_of_lease(&mut c);
        assert!(end > unix_ms() + 50_000, "{name}");
        run(&mut c, "LOCK.ACQUIRE k b").nil();
    }
}

#[test]
fn what_is_left_of_the_lease_runs_out() {
    let server = Server::start();
    let mut c = server.connection();
    let keeper = Keeper::on(&server, "k a PX 1200 KEEP 60000");
    await_renewals(&server, 1);
    drop(keeper);
    eventually(|| count(&server, "kept") == 0, "nothing to be kept");
    let end = end_of_lease(&mut c);
    let mut next = server.connection();
    let load = Load::on(&server);
    let grant = run(&mut next, "LOCK.ACQUIRE k b BLOCK 0").grant();
    let late = grant.token / 1000 - end;
    assert!((0..500 + load.so_far_ms()).contains(&late), "{late}");
}

#[test]
fn a_new_connection_that_comes_back_in_time_keeps_it_again() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::of(server.connection());
    let token = keeper.acquire("k a PX 2000 KEEP 60000").token;
    drop(keeper);
    eventually(|| kept_by(&mut c) == [(0, 0)], "nobody to keep it");
    let mut keeper = Keeper::of(server.connection());
    let back = cmd!(
        *keeper,
        "LOCK.RENEW",
        "k",
        "a",
        "TOKEN",
        token,
        "KEEP",
        60_000
    )
    .grant();
    assert_eq!(back.token, token);
    assert_eq!(kept_by(&mut c), [(keeper.id, 60_000)]);
    await_renewals(&server, 2);
    stands(&mut c, token);
}

#[test]
fn a_new_connection_learns_what_is_lost() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::of(server.connection());
    let names = ["free", "anothers", "again", "stands"];
    let tokens = names.map(|name| {
        keeper
            .acquire(&format!("{name} a PX 60000 KEEP 60000"))
            .token
    });
    drop(keeper);
    eventually(|| count(&server, "kept") == 0, "nothing to be kept");
    run(&mut c, "DEL free anothers again").int();
    run(&mut c, "LOCK.ACQUIRE anothers b").grant();
    run(&mut c, "LOCK.ACQUIRE again a").grant();
    let mut keeper = Keeper::of(server.connection());
    let mut back = |n: usize| {
        cmd!(
            *keeper,
            "LOCK.RENEW",
            names[n],
            "a",
            "TOKEN",
            tokens[n],
            "KEEP",
            60_000
        )
    };
    back(0).refused("NOTHELD");
    back(1).refused("NOTOWNER");
    back(2).refused("FENCED");
    assert_eq!(back(3).grant().token, tokens[3]);
    assert_eq!(count(&server, "kept"), 1);
}

/// RESET does not end the keeping.
#[test]
fn a_reset_leaves_the_keeping() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::on(&server, "k a PX 1000 KEEP 60000");
    assert_eq!(run(&mut keeper, "RESET").text(), "RESET");
    await_renewals(&server, 3);
    assert_eq!(kept_by(&mut c), [(keeper.id, 60_000)]);
    keeper.is_answered();
    run(&mut c, "DEL k").int();
    keeper.throw(&["PING"]);
    keeper.is_closed();
}
