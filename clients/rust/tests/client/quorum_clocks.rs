//! A lock on five servers whose clocks differ by more than a raise may bridge.

use crate::five::Five;
use crate::support::is_free;
use redis_lock_client::Error;
use testbed::clock::SteppedClock;
use testbed::state::unix_micros;
use testbed::{Expect, Server, cmd, eventually};

const HOUR: u64 = 3600 * 1_000_000;

/// Makes the server grant tokens that lie this many microseconds ahead of time.
fn put_ahead(server: &Server, micros: u64) {
    let mut c = server.connection();
    cmd!(c, "CONFIG", "SET", "lock.max-token-lead-ms", 86_400_000).okay();
    let token = cmd!(c, "LOCK.ACQUIRE", "x", "me").grant().token;
    let far = u64::try_from(token).expect("a token") + micros;
    cmd!(c, "LOCK.RENEW", "x", "me", "TOKEN", token, "RAISE", far).grant();
    cmd!(c, "LOCK.RELEASE", "x", "me").int();
    cmd!(c, "CONFIG", "SET", "lock.max-token-lead-ms", 5000).okay();
}

/// Whether this token is of our time, not of an hour ahead.
fn is_of_now(token: u64) -> bool {
    token < unix_micros().cast_unsigned() + HOUR / 2
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_far_ahead_are_left_out() {
    for ahead in 1..=2 {
        let five = Five::start();
        for (server, hours) in five.servers[..ahead].iter().zip(1..) {
            put_ahead(server, hours * HOUR);
        }
        let guard = five.locks().lock("k").acquire().await.expect("a lock");
        assert!(is_of_now(guard.token()), "{}", guard.token());
        eventually(
            || five.are_held_by(&guard) && five.servers[..ahead].iter().all(|it| is_free(it, "k")),
            "the others to have it, and those to be free",
        );
        guard.check().await.expect("a renewal");
        guard.release().await.expect("a release");
    }
}

/// Two of the first three do not go with the third one's token. With those that answer later they are a
/// majority.
#[tokio::test(flavor = "multi_thread")]
async fn all_are_heard_before_a_majority_is_given_up() {
    let five = Five::start();
    put_ahead(&five.servers[0], HOUR);
    for slow in &five.servers[3..] {
        cmd!(slow.connection(), "CLIENT", "PAUSE", 300, "ALL").okay();
    }
    let guard = five.locks().lock("k").acquire().await.expect("a lock");
    assert!(is_of_now(guard.token()), "{}", guard.token());
    eventually(
        || five.are_held_by(&guard) && is_free(&five.servers[0], "k"),
        "the others to have it, and that one to be free",
    );
    guard.release().await.expect("a release");
}

/// A majority decides what time it is: tokens go on from there.
#[tokio::test(flavor = "multi_thread")]
async fn a_majority_ahead_is_followed() {
    let five = Five::start();
    for server in &five.servers[..3] {
        put_ahead(server, HOUR);
        cmd!(
            server.connection(),
            "CONFIG",
            "SET",
            "lock.max-token-lead-ms",
            86_400_000
        )
        .okay();
    }
    let guard = five.locks().lock("k").acquire().await.expect("a lock");
    assert!(!is_of_now(guard.token()));
    eventually(
        || five.are_held_by(&guard) && five.grants("k").len() == 3,
        "those to have it, and the others to be free",
    );
    guard.release().await.expect("a release");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_majority_the_servers_are_named() {
    let mut five = Five::start();
    five.servers[4].kill9();
    for server in &five.servers[..2] {
        put_ahead(server, HOUR);
    }
    let refused = five.locks().lock("k").acquire().await;
    let Err(Error::Refused { code, message }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(code, "AHEAD");
    for port in &five.ports()[2..4] {
        assert!(message.contains(&format!("127.0.0.1:{port}")), "{message}");
    }
    eventually(|| five.are_free("k"), "nothing to stay");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_clock_is_behind_is_left_out() {
    let behind = match SteppedClock::start(Server::builder()) {
        Ok(behind) => behind,
        Err(reason) => return println!("skipped: {reason}"),
    };
    behind.step(-3600);
    let five = Five::start();
    let mut ports = five.ports();
    ports[1] = behind.server.port();
    let locks = crate::five::locks_at(ports, crate::support::settings());
    let guard = locks.lock("k").acquire().await.expect("a lock");
    assert!(is_of_now(guard.token()));
    eventually(|| five.are_held_by(&guard), "the others to have it");
    eventually(|| is_free(&behind.server, "k"), "that one to be free");
    guard.release().await.expect("a release");
}
