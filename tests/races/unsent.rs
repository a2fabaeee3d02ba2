//! Grants whose reply lies unsent behind other output of a client that closes, and those that only
//! look so.

use crate::stalls::{clients, servers};
use redis::Connection;
use std::net::{Shutdown, TcpStream};
use std::thread::sleep;
use std::time::Duration;
use testbed::{
    Expect, Server, Talk, cmd, eventually, held, info, line, nobody_waits, owner, queue, run,
    stream, wait_as, waiters,
};

/// Makes a value that is more than the system takes for a client that does not read.
fn much(c: &mut Connection) {
    cmd!(*c, "SETRANGE", "much", 19_999_999, "x").int();
}

/// A client that reads nothing, and has much to read before the answer to its wait for `k` as `b`.
fn slow(server: &Server, c: &mut Connection) -> TcpStream {
    let slow = stream(server, &["GET much", "LOCK.ACQUIRE k b PX 600000 BLOCK 0"]);
    eventually(|| queue(c) == ["b"], "it to wait");
    slow
}

#[test]
fn a_grant_that_was_never_sent_is_given_back() {
    for server in servers() {
        let mut c = server.connection();
        much(&mut c);
        for _ in 0..3 {
            run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
            let slow = slow(&server, &mut c);
            let [mut next] = wait_as(&server, ["c"]);
            assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
            assert_eq!(owner(&mut c), "b");
            for _ in 0..50 {
                run(&mut c, "PING").value();
            }
            slow.shutdown(Shutdown::Both).expect("closed");
            assert_eq!(next.granted().owner, b"c");
            assert_eq!(run(&mut c, "LOCK.RELEASE k c").int(), 0);
        }
        nobody_waits(&server);
    }
}

#[test]
fn it_is_given_back_also_where_many_others_have_closed_before() {
    let (server, mut c) = held();
    much(&mut c);
    let others: Vec<_> = (0..40)
        .map(|number| {
            let key = format!("other{number}");
            cmd!(c, "LOCK.ACQUIRE", &key, "a").grant();
            let mut other = server.connection();
            other.post(&line(&format!("LOCK.ACQUIRE {key} b BLOCK 0")));
            eventually(|| waiters(&mut c, &key) == ["b"], "a client to wait");
            assert_eq!(cmd!(c, "LOCK.RELEASE", &key, "a").int(), 0);
            assert_eq!(other.receive().grant().owner, b"b");
            other
        })
        .collect();
    let slow = slow(&server, &mut c);
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    assert_eq!(owner(&mut c), "b");
    // Nobody waits any more.
    sleep(Duration::from_millis(50));
    drop(others);
    eventually(|| clients(&server) == 3, "the others to be gone");
    sleep(Duration::from_millis(50));
    slow.shutdown(Shutdown::Both).expect("closed");
    eventually(|| run(&mut c, "EXISTS k").int() == 0, "the lock to be free");
}

#[test]
fn a_grant_that_was_read_stays_whatever_is_unsent_behind_it() {
    // Also where the last command is of the same name, and was refused or has not run yet.
    let last = [
        vec!["PING"],
        vec!["LOCK.ACQUIRE other b"],
        vec!["LOCK.ACQUIRE other b NONSENSE"],
        vec!["MULTI", "LOCK.ACQUIRE other b"],
        vec!["CLIENT PAUSE 300 WRITE", "LOCK.ACQUIRE other b"],
    ];
    let (server, mut c) = held();
    much(&mut c);
    for last in last {
        let [mut waiter] = wait_as(&server, ["b"]);
        assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
        assert_eq!(waiter.granted().owner, b"b");
        let [mut next] = wait_as(&server, ["c"]);
        waiter.post(&line("GET much"));
        for command in &last {
            waiter.post(&line(command));
        }
        let id = waiter.id;
        let mut listed = || cmd!(c, "CLIENT", "LIST", "ID", id).text();
        let name = last[last.len() - 1].split(' ').next().unwrap_or_default();
        let name = format!(" cmd={} ", name.to_lowercase());
        eventually(|| listed().contains(&name), "it to have sent all");
        drop(waiter);
        eventually(|| listed().is_empty(), "it to be gone");
        run(&mut c, "CLIENT UNPAUSE").okay();
        for _ in 0..50 {
            run(&mut c, "PING").value();
            assert_eq!(info(&mut c).owner, b"b", "{last:?}");
        }
        run(&mut c, "LOCK.RELEASE k b").int();
        assert_eq!(next.granted().owner, b"c");
        run(&mut c, "LOCK.RELEASE k c").int();
        run(&mut c, "DEL other").int();
        run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    }
}
