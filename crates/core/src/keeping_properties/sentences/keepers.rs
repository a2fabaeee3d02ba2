//! Which connection keeps what, and when it is closed.

use super::super::world::token;
use super::{Server, name};
use crate::keeping::{Asked, GrantName, KeptGrants};

#[test]
fn each_way_to_lose_a_grant_closes_its_connection_once_and_drops_its_other_grants() {
    type Loss = fn(&mut KeptGrants) -> Vec<u64>;
    let losses: [Loss; 4] = [
        |registry| registry.lost(name("a", 1)).into_iter().collect(),
        |registry| registry.lost_lock(0, b"a"),
        |registry| registry.lost_database(0),
        KeptGrants::lost_all,
    ];
    for lose in losses {
        let mut server = Server::new();
        server.keep(name("a", 1), 7, 60_000, 3000);
        server.keep(name("b", 2), 7, 60_000, 3000);
        let elsewhere = GrantName {
            database: 1,
            ..name("c", 3)
        };
        server.keep(elsewhere, 7, 60_000, 3000);
        assert_eq!(server.registry.len(), 3);
        assert_eq!(lose(&mut server.registry), [7]);
        assert!(server.registry.is_empty() && server.registry.get(elsewhere).is_none());
        assert_eq!(lose(&mut server.registry), []);
        server.pass(1000);
        assert!(server.renew().is_empty(), "they are renewed no more");
    }
}

#[test]
fn shares_of_a_lock_are_kept_by_different_connections() {
    let mut server = Server::new();
    for number in 1..=3 {
        server.keep(name("a", number), 10 + number, 60_000, 3000);
    }
    assert_eq!(server.registry.lost(name("a", 2)), Some(12));
    assert_eq!(server.registry.get(name("a", 3)).unwrap().client_id, 13);
    server.registry.released(name("a", 3));
    assert_eq!(server.registry.lost_lock(0, b"a"), [11]);
}

#[test]
fn a_keep_from_another_connection_takes_over_and_closes_the_old_one() {
    let mut server = Server::new();
    server.keep(name("a", 1), 7, 60_000, 3000);
    server.keep(name("b", 2), 7, 60_000, 3000);
    assert_eq!(server.keep(name("a", 1), 8, 60_000, 3000), Some(7));
    assert_eq!(server.registry.get(name("a", 1)).unwrap().client_id, 8);
    assert_eq!(server.registry.get(name("b", 2)), None);
    assert_eq!(server.keep(name("a", 1), 8, 60_000, 3000), None, "its own");
}

#[test]
fn a_reentry_takes_the_longer_silence_and_a_renewal_sets_it_anew() {
    let mut server = Server::new();
    let a = name("a", 1);
    server.keep(a, 7, 5000, 3000);
    server.keep(a, 7, 2000, 3000);
    assert_eq!(server.silence_of(a), Some(5000));
    server.keep(a, 8, 3000, 3000);
    assert_eq!(server.silence_of(a), Some(5000), "a takeover too");
    server.keep_by(Asked::Renew, a, 8, 1000, 3000);
    assert_eq!(server.silence_of(a), Some(1000));
    server.keep_by(Asked::Renew, a, 9, 4000, 3000);
    assert_eq!(server.silence_of(a), Some(4000));
    server.registry.client_closed(9);
    server.keep(a, 10, 2000, 3000);
    assert_eq!(server.silence_of(a), Some(2000), "it was kept no more");
}

#[test]
fn keep_0_ends_it_and_closes_another_connection_alone() {
    let mut server = Server::new();
    let (a, b) = (name("a", 1), name("b", 2));
    server.keep(a, 7, 5000, 3000);
    assert_eq!(server.registry.end(a, 7), None);
    assert_eq!(server.registry.end(a, 7), None, "again");
    server.keep(a, 7, 5000, 3000);
    server.keep(b, 7, 5000, 3000);
    assert_eq!(server.registry.end(a, 8), Some(7));
    assert!(server.registry.is_empty());
}

#[test]
fn a_release_of_the_last_hold_closes_nothing_and_a_raise_takes_it_along() {
    let mut server = Server::new();
    server.keep(name("a", 1), 7, 5000, 3000);
    server.registry.raised(name("a", 1), token(9));
    assert_eq!(server.registry.get(name("a", 1)), None);
    assert_eq!(server.registry.get(name("a", 9)).unwrap().client_id, 7);
    server.registry.released(name("a", 9));
    assert!(server.registry.is_empty());
    assert!(server.registry.lost_lock(0, b"a").is_empty());
}

#[test]
fn a_closed_connection_releases_nothing_and_its_grants_can_be_kept_again() {
    let mut server = Server::new();
    server.keep(name("a", 1), 7, 5000, 3000);
    server.registry.client_closed(7);
    assert!(server.registry.is_empty() && !server.registry.is_idle());
    assert_eq!(
        server.keep_by(Asked::Renew, name("a", 1), 8, 5000, 3000),
        None
    );
    assert_eq!(server.registry.len(), 1);
    assert!(!server.registry.sweep(10));
    assert_eq!(server.registry.get(name("a", 1)).unwrap().client_id, 8);
}

#[test]
fn what_a_closed_connection_kept_is_put_away_a_little_at_a_time() {
    let mut server = Server::new();
    for number in 1..=1000 {
        server.keep(name("a", number), 7, 60_000, 30_000);
    }
    server.keep(name("b", 1), 8, 60_000, 30_000);
    server.registry.client_closed(7);
    assert_eq!(server.registry.len(), 1);
    let mut sweeps = 1;
    while server.registry.sweep(100) {
        sweeps += 1;
        server.registry.check();
    }
    assert!((10..=11).contains(&sweeps), "{sweeps}");
    server.registry.client_closed(8);
    assert!(!server.registry.sweep(1) && server.registry.is_idle());
    server.registry.check();
}
