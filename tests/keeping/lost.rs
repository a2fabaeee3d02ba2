//! A grant that ends otherwise than by RELEASE: the connection that keeps it is closed, and no later
//! command on it is answered.

use crate::support::{Keeper, at_once, count, kept_by, run, stands, while_stopped};
use redis::Connection;
use testbed::{Expect, Server, Talk, cmd, eventually, line};

/// How another connection takes `k` away, beside a lock `other` and a value `v`.
const WAYS: [&str; 22] = [
    "DEL k",
    "UNLINK k",
    "SET k v",
    "MSET v 1 k 2",
    "RENAME k new",
    "RENAME v k",
    "RENAME other k",
    "RENAMENX k new",
    "MOVE k 1",
    "SWAPDB 0 1",
    "SWAPDB 1 0",
    "FLUSHDB",
    "FLUSHDB SYNC",
    "FLUSHDB ASYNC",
    "FLUSHALL SYNC",
    "FLUSHALL ASYNC",
    "SUNIONSTORE k nothing",
    "BITOP NOT k v",
    "COPY v k REPLACE",
    "PEXPIRE k 0",
    "PEXPIREAT k 1",
    "SORT nothing STORE k",
];

/// What does nothing to `k`, though it looks like it.
const OTHERS: [&str; 11] = [
    "HSET k f v",
    "GETSET k v",
    "SWAPDB 1 2",
    "SWAPDB 0 0",
    "RENAMENX v k",
    "RENAME v new",
    "DEL other new",
    "PEXPIRE k 600000",
    "LOCK.RELEASE k b",
    "RESTORE k 0 x",
    "COPY k new",
];

/// A server with a lock `other` and a value `v`.
fn prepared() -> (Server, Connection) {
    let server = Server::start();
    let mut c = server.connection();
    prepare(&mut c);
    (server, c)
}

fn prepare(c: &mut Connection) {
    run(c, "FLUSHALL").okay();
    run(c, "SET v value").okay();
    run(c, "LOCK.ACQUIRE other o PX 600000").grant();
}

fn keeper(server: &Server) -> Keeper {
    Keeper::on(server, "k a PX 600000 KEEP 600000")
}

#[test]
fn whoever_takes_the_lock_away_closes_the_connection() {
    let (server, mut c) = prepared();
    for way in WAYS {
        let mut keeper = keeper(&server);
        let before = count(&server, "kept_closes");
        let _ = run(&mut c, way).reply();
        println!("{way}");
        keeper.throw(&["PING"]);
        keeper.is_closed();
        let after = (count(&server, "kept_closes"), count(&server, "kept"));
        assert_eq!(after, (before + 1, 0), "{way}");
        prepare(&mut c);
    }
}

/// What the connection sends meets the server in the same tick, before the loss or after it.
#[test]
fn no_command_that_comes_with_the_loss_is_answered_after_it() {
    let (server, mut c) = prepared();
    for (number, way) in WAYS.into_iter().enumerate() {
        let mut keeper = keeper(&server);
        while_stopped(&server, || {
            if number % 2 == 0 {
                keeper.throw(&["PING"]);
            }
            c.post(&line(way));
            keeper.throw(&["PING", "LOCK.INFO k"]);
        });
        println!("{way}");
        let _ = c.receive();
        let replies: Vec<_> = std::iter::from_fn(|| keeper.next()).collect();
        // The first PING, where it came before the loss.
        assert!(replies.len() <= 1, "{way}: {replies:?}");
        prepare(&mut c);
    }
}

#[test]
fn a_script_or_transaction_of_another_closes_it_too() {
    let (server, mut c) = prepared();
    let mut keeper = keeper(&server);
    cmd!(c, "EVAL", "return redis.call('DEL', KEYS[1])", 1, "k").int();
    keeper.is_closed();
    let mut keeper = self::keeper(&server);
    let [multi, queued, exec] = ["MULTI", "DEL k", "EXEC"];
    at_once(&mut c, &[multi, queued, exec]);
    keeper.is_closed();
}

#[test]
fn a_dump_restored_over_it_closes_it() {
    let (server, mut c) = prepared();
    let mut keeper = keeper(&server);
    let dump = cmd!(c, "DUMP", "other").bytes();
    cmd!(c, "RESTORE", "k", 600_000, dump, "REPLACE").okay();
    keeper.throw(&["PING"]);
    keeper.is_closed();
    // Its own dump is another grant under the same name.
    run(&mut c, "DEL k").int();
    let mut keeper = self::keeper(&server);
    let dump = cmd!(c, "DUMP", "k").bytes();
    cmd!(c, "RESTORE", "k", 600_000, dump, "REPLACE").okay();
    keeper.is_closed();
    assert_eq!(kept_by(&mut c), [(0, 0)]);
}

#[test]
fn eviction_closes_it() {
    let (server, mut c) = prepared();
    run(&mut c, "CONFIG SET maxmemory-policy allkeys-random").okay();
    let mut keeper = keeper(&server);
    run(&mut c, "CONFIG SET maxmemory 1").okay();
    eventually(|| run(&mut c, "EXISTS k").int() == 0, "the eviction");
    keeper.throw(&["PING"]);
    keeper.is_closed();
}

/// The server makes room before it runs a command, and may refuse that command all the same. A client is not
/// closed within its own command: what it sends next would be answered, with the rights of the default user.
#[test]
fn eviction_by_its_own_refused_command_closes_it_at_once() {
    let (server, mut c) = prepared();
    run(&mut c, "ACL SETUSER few on nopass ~* +@all -flushall").okay();
    run(&mut c, "CONFIG SET maxmemory-policy volatile-ttl").okay();
    let mut keeper = Keeper::of(server.connection());
    run(&mut keeper, "AUTH few any").okay();
    run(&mut keeper, "FLUSHALL").refused("NOPERM");
    keeper.acquire("k a PX 3000 KEEP 600000");
    let used = server.info_field("memory", "used_memory");
    let limit = used.parse::<u64>().expect("a number") + 60_000;
    run(&mut c, &format!("CONFIG SET maxmemory {limit}")).okay();
    let before = count(&server, "kept_closes");
    let large = "n".repeat(400_000);
    keeper.throw(&[&format!("LOCK.ACQUIRE {large} a"), "FLUSHALL"]);
    keeper.is_closed();
    run(&mut c, "CONFIG SET maxmemory 0").okay();
    assert_eq!(count(&server, "kept_closes"), before + 1);
    assert_eq!(run(&mut c, "EXISTS v").int(), 1);
}

#[test]
fn what_takes_nothing_away_closes_nothing() {
    let (server, mut c) = prepared();
    let mut keeper = Keeper::of(server.connection());
    let granted = keeper.acquire("k a PX 600000 KEEP 600000");
    run(&mut keeper, "SELECT 3").okay();
    keeper.acquire("k a PX 600000 KEEP 600000");
    for way in OTHERS {
        let _ = run(&mut c, way).reply();
        keeper.is_answered();
        stands(&mut c, granted.token);
        assert_eq!(kept_by(&mut c), [(keeper.id, 600_000)], "{way}");
    }
    run(&mut c, "SELECT 1").okay();
    run(&mut c, "FLUSHDB").okay();
    keeper.is_answered();
    assert_eq!(count(&server, "kept_closes"), 0);
    assert_eq!(count(&server, "kept"), 2);
}

/// The other grants of a closed connection stand, with what is left of their leases.
#[test]
fn its_other_grants_are_kept_no_more_and_not_released() {
    let (server, mut c) = prepared();
    let mut keeper = keeper(&server);
    let token = keeper.acquire("lost a PX 600000 KEEP 600000").token;
    run(&mut c, "DEL lost").int();
    keeper.is_closed();
    assert_eq!(kept_by(&mut c), [(0, 0)]);
    assert!(run(&mut c, "PTTL k").int() > 500_000);
    assert!(run(&mut c, "LOCK.ACQUIRE lost b").grant().token > token);
}

/// The lock that is moved carries its grant along, which is kept no more.
#[test]
fn a_renamed_lock_is_held_and_not_kept() {
    let (server, mut c) = prepared();
    let mut keeper = keeper(&server);
    run(&mut c, "RENAME k new").okay();
    run(&mut c, "RENAME new k").okay();
    keeper.is_closed();
    assert_eq!(kept_by(&mut c), [(0, 0)]);
}
