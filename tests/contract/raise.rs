//! `LOCK.RENEW … TOKEN t RAISE r`: the second round of a quorum over several servers.

use crate::support::{last_token, now_us, run, starts_lease, unchanged};
use redis::Connection;
use testbed::{Expect, Grant, Server, cmd};

fn acquire(c: &mut Connection) -> Grant {
    run(c, "LOCK.ACQUIRE k a PX 60000").grant()
}

fn raise(token: i64, raised: i64) -> String {
    format!("LOCK.RENEW k a TOKEN {token} RAISE {raised}")
}

#[test]
fn it_lifts_the_grants_token_and_the_clock_with_it() {
    let server = Server::start();
    let mut c = server.connection();
    let grant = acquire(&mut c);
    let raised = now_us() + 2_000_000;
    let renewed =
        starts_lease(&mut c, "k", 60_000, |c| run(c, &raise(grant.token, raised))).grant();
    assert_eq!(
        renewed,
        Grant {
            token: raised,
            ..grant.clone()
        }
    );
    cmd!(c, "LOCK.FENCE", "k", raised).okay();
    cmd!(c, "LOCK.FENCE", "k", grant.token).refused("FENCED");
    assert_eq!(last_token(&mut c), raised);
    assert_eq!(
        run(&mut c, "LOCK.ACQUIRE other b").grant().token,
        raised + 1
    );
}

#[test]
fn it_renews_the_lease_with_the_given_or_the_remembered_length() {
    let server = Server::start();
    let mut c = server.connection();
    let token = acquire(&mut c).token;
    let line = format!("{} PX 90000", raise(token, token + 1));
    let grant = starts_lease(&mut c, "k", 90_000, |c| run(c, &line)).grant();
    assert_eq!(grant.lease, 90_000);
    run(&mut c, "PEXPIRE k 1000").int();
    starts_lease(&mut c, "k", 90_000, |c| {
        run(c, &raise(token + 1, token + 2))
    })
    .grant();
}

#[test]
fn it_can_be_repeated() {
    let server = Server::start();
    let mut c = server.connection();
    let token = acquire(&mut c).token;
    let raised = token + 1_000_000;
    let first = run(&mut c, &raise(token, raised)).grant();
    for _ in 0..3 {
        let again = starts_lease(&mut c, "k", 60_000, |c| run(c, &raise(token, raised)));
        assert_eq!(again.grant(), first);
    }
    assert_eq!(last_token(&mut c), raised);
}

#[test]
fn a_raise_beyond_the_lead_is_ahead_and_changes_nothing() {
    let server = Server::start();
    let mut c = server.connection();
    let token = acquire(&mut c).token;
    for lead in [5000, 0, 60_000, 86_400_000] {
        cmd!(c, "CONFIG", "SET", "lock.max-token-lead-ms", lead).okay();
        let beyond = now_us() + lead * 1000 + 1_000_000;
        let error = unchanged(&mut c, "k", |c| run(c, &raise(token, beyond))).refused("AHEAD");
        assert!(error.contains("lock.max-token-lead-ms"), "{error}");
    }
}

#[test]
fn with_no_lead_a_raise_up_to_now_is_taken() {
    let server = Server::start();
    let mut c = server.connection();
    cmd!(c, "CONFIG", "SET", "lock.max-token-lead-ms", 0).okay();
    let token = acquire(&mut c).token;
    let now = now_us();
    assert_eq!(run(&mut c, &raise(token, now)).grant().token, now);
}

#[test]
fn a_token_that_this_server_has_seen_is_never_ahead() {
    let server = Server::start();
    let mut c = server.connection();
    let token = acquire(&mut c).token;
    let seen = now_us() + 3_600_000_000;
    cmd!(c, "LOCK._CLOCK", seen).okay();
    unchanged(&mut c, "k", |c| run(c, &raise(token, seen + 1))).refused("AHEAD");
    let lower = seen - 1_000_000;
    assert_eq!(run(&mut c, &raise(token, lower)).grant().token, lower);
    assert_eq!(run(&mut c, &raise(lower, seen)).grant().token, seen);
    assert_eq!(last_token(&mut c), seen);
    run(&mut c, &raise(seen, seen)).grant();
    run(&mut c, "LOCK.RENEW k a").grant();
}

#[test]
fn several_servers_can_be_given_one_token() {
    let servers = [Server::start(), Server::start(), Server::start()];
    let mut connections: Vec<_> = servers.iter().map(Server::connection).collect();
    let tokens: Vec<_> = connections.iter_mut().map(|c| acquire(c).token).collect();
    let common = *tokens.iter().max().expect("three tokens");
    for (c, token) in connections.iter_mut().zip(tokens) {
        assert_eq!(run(c, &raise(token, common)).grant().token, common);
        cmd!(*c, "LOCK.FENCE", "k", common).okay();
    }
}
