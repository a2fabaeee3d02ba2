//! Renewals and the ends of leases.

use super::super::world::lease;
use super::{Server, keys, name};
use crate::{Deadline, Monotonic};

#[test]
fn a_kept_grant_is_renewed_when_a_third_of_its_lease_has_passed_and_not_before() {
    let mut server = Server::new();
    assert_eq!(server.keep(name("a", 1), 7, 60_000, 3000), None);
    assert_eq!(server.keep(name("b", 2), 7, 60_000, 9000), None);
    server.pass(999);
    assert_eq!(keys(&server.renew()), [] as [&str; 0]);
    server.pass(1);
    assert_eq!(keys(&server.renew()), ["a"]);
    assert_eq!(
        server.registry.next_due(),
        Some(Monotonic(1_000_000 + 2_000_000))
    );
    server.pass(2000);
    assert_eq!(keys(&server.renew()), ["a", "b"]);
}

#[test]
fn the_lease_that_the_grant_remembers_now_counts() {
    let mut server = Server::new();
    server.keep(name("a", 1), 7, 60_000, 9000);
    server.pass(500);
    let (end, now) = (server.ends_in(1500), server.now());
    server.registry.renewed(name("a", 1), lease(1500), end, now);
    server.pass(499);
    assert!(server.renew().is_empty());
    server.pass(1);
    assert_eq!(keys(&server.renew()), ["a"]);
}

#[test]
fn a_change_that_refreshes_no_lease_puts_off_no_renewal() {
    let mut server = Server::new();
    server.keep(name("a", 1), 7, 60_000, 3000);
    let end = server.ends_in(3000);
    server.pass(900);
    let now = server.now();
    server.registry.renewed(name("a", 1), lease(3000), end, now);
    server.pass(100);
    assert_eq!(keys(&server.renew()), ["a"]);
}

#[test]
fn a_lease_that_has_ended_is_looked_at_before_it_is_lost() {
    let mut server = Server::new();
    let a = name("a", 1);
    server.keep(a, 7, 60_000, 3000);
    let end = server.registry.next_end().unwrap();
    server.stall(3000);
    let unix = server.now().unix;
    assert_eq!(end, unix.millis());
    assert_eq!(
        server.registry.take_ended(unix),
        None,
        "it is held at its end"
    );
    server.stall(1);
    let unix = server.now().unix;
    assert_eq!(keys(&[server.registry.take_ended(unix).unwrap()]), ["a"]);
    assert_eq!(server.registry.take_ended(unix), None, "once");
    // A PEXPIRE by hand has put it off.
    let (later, now) = (server.ends_in(500), server.now());
    assert_eq!(server.registry.seen(a, later, now), None);
    server.stall(501);
    let now = server.now();
    assert!(server.registry.take_ended(now.unix).is_some());
    assert_eq!(
        server.registry.seen(a, later, now),
        Some(7),
        "it has passed"
    );
}

#[test]
fn a_forward_step_of_the_wall_clock_ends_kept_leases() {
    let mut server = Server::new();
    server.keep(name("a", 1), 7, 60_000, 3000);
    server.wall += 3001;
    assert!(server.renew().is_empty(), "no third has passed");
    let unix = server.now().unix;
    assert!(server.registry.take_ended(unix).is_some());
    assert_eq!(server.registry.lost(name("a", 1)), Some(7));
}

#[test]
fn a_cut_that_is_made_lasting_ends_what_is_kept() {
    let mut server = Server::new();
    server.keep(name("a", 1), 7, 60_000, 30_000);
    let at = server.now().unix.millis() + 100;
    server.registry.cut(0, b"a", at);
    assert_eq!(server.registry.next_end(), Some(at));
    server.registry.cut(0, b"a", at + 1000);
    assert_eq!(server.registry.next_end(), Some(at));
}

#[test]
fn a_lease_without_end_is_looked_at_and_a_lifted_persist_counts_the_third_anew() {
    let mut server = Server::new();
    let a = name("a", 1);
    server.keep(a, 7, 60_000, 3000);
    let now = server.now();
    server.registry.seen(a, Deadline::Never, now);
    assert_eq!(server.registry.next_end(), None);
    server.pass(2500);
    let now = server.now();
    assert!(
        server.registry.take_due(now).is_some(),
        "only to be looked at"
    );
    server.registry.seen(a, Deadline::Never, now);
    assert_eq!(server.registry.take_due(now), None);
    let (end, now) = (server.ends_in(2500), server.now());
    server.registry.seen(a, end, now);
    server.pass(999);
    assert!(server.renew().is_empty());
    server.pass(1);
    assert_eq!(keys(&server.renew()), ["a"]);
}

#[test]
fn a_pexpire_by_hand_stands_until_the_next_own_renewal() {
    let mut server = Server::new();
    let a = name("a", 1);
    server.keep(a, 7, 60_000, 3000);
    server.pass(500);
    for ms in [2000, 100_000] {
        let (end, now) = (server.ends_in(ms), server.now());
        server.registry.seen(a, end, now);
    }
    server.pass(499);
    assert!(server.renew().is_empty());
    server.pass(1);
    assert_eq!(keys(&server.renew()), ["a"]);
}

#[test]
fn while_nothing_may_be_written_a_connection_closes_when_less_than_a_third_is_left() {
    let mut server = Server::new();
    let a = name("a", 1);
    server.keep(a, 7, 60_000, 3000);
    let end = server.ends_in(3000);
    for _ in 0..200 {
        server.pass(10);
        let now = server.now();
        assert_eq!(server.registry.take_short(now), None);
    }
    server.pass(1);
    let now = server.now();
    assert!(server.registry.take_short(now).is_some());
    assert_eq!(server.registry.cannot_renew(a, end, now), Some(7));
}

#[test]
fn after_a_hold_up_all_that_is_due_is_renewed_nearest_end_first() {
    let mut server = Server::new();
    for (lock, px) in [("a", 9000), ("b", 6000), ("c", 30_000), ("d", 7500)] {
        server.keep(name(lock, 1), 7, 60_000, px);
    }
    for _ in 0..300 {
        server.pass(10);
        let now = server.now();
        assert_eq!(server.registry.take_short(now), None);
    }
    assert_eq!(server.registry.next_due(), Some(Monotonic(0)), "at once");
    let now = server.now();
    for _ in 0..2 {
        let to_try = server.registry.to_try(now).unwrap();
        assert_eq!(keys(&[to_try]), ["b"], "and is not taken");
    }
    assert_eq!(keys(&server.renew()), ["b", "d", "a"]);
    assert_eq!(keys(&server.renew()), [] as [&str; 0]);
}

#[test]
fn after_a_stall_what_is_held_is_renewed_nearest_end_first_and_before_a_command() {
    let mut server = Server::new();
    for (lock, px) in [("a", 30_000), ("b", 18_000), ("c", 60_000)] {
        server.keep(name(lock, 1), 7, 90_000, px);
    }
    server.stall(15_000);
    let now = server.now();
    assert_eq!(keys(&server.registry.due_of(0, b"a", now)), ["a"]);
    assert!(server.registry.due_of(0, b"c", now).is_empty());
    assert_eq!(keys(&server.renew()), ["b", "a"]);
    let now = server.now();
    assert!(server.registry.due_of(0, b"a", now).is_empty());
}

#[test]
fn a_lock_that_may_not_be_written_is_tried_again_until_a_third_is_left() {
    let mut server = Server::new();
    let a = name("a", 1);
    server.keep(a, 7, 60_000, 3000);
    let end = server.ends_in(3000);
    server.pass(1000);
    let mut tries = 0;
    let closed = loop {
        let now = server.now();
        if server.registry.take_due(now).is_some() {
            tries += 1;
            assert_eq!(keys(&server.registry.due_of(0, b"a", now)), [] as [&str; 0]);
            if let Some(closed) = server.registry.cannot_renew(a, end, now) {
                break closed;
            }
            assert_eq!(keys(&server.registry.due_of(0, b"a", now)), ["a"]);
        }
        server.pass(1);
    };
    assert_eq!((closed, tries, server.monotonic), (7, 12, 2001));
}

#[test]
fn all_are_looked_at_in_turn() {
    let mut server = Server::new();
    for number in 1..=3 {
        server.keep(name("a", number), 7, 60_000, 30_000);
    }
    let mut seen: Vec<_> = (0..6)
        .map(|_| server.registry.next_to_look_at().unwrap().token.number())
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, [1, 1, 2, 2, 3, 3]);
}

/// Each share of a lock comes due by itself, and one that is held up stays due.
#[test]
fn of_many_shares_those_that_are_due_are_told() {
    let mut server = Server::new();
    for number in 1..=100 {
        server.keep(name("a", number), 7, 900_000, 3000 * number);
    }
    let due = |server: &Server| {
        let due = server.registry.due_of(0, b"a", server.now());
        let tokens = due.iter().map(|grant| grant.token.number());
        let told = server.registry.has_due_of(0, b"a", server.now());
        assert_eq!(told, !due.is_empty());
        tokens.collect::<Vec<_>>()
    };
    assert_eq!(due(&server), []);
    server.stall(3000);
    assert_eq!(due(&server), [1, 2, 3]);
    // Nothing may be renewed: it is held up, and due though its time is another.
    let now = server.now();
    while let Some(kept) = server.registry.take_short(now) {
        let end = server.ends_in(3000);
        assert_eq!(server.registry.cannot_renew(kept.name(), end, now), None);
    }
    assert_eq!(due(&server), [1, 2, 3]);
    let end = server.ends_in(6000);
    let renewed = lease(6000);
    server.registry.renewed(name("a", 2), renewed, end, now);
    server.registry.released(name("a", 3));
    assert_eq!(due(&server), [1]);
    server
        .registry
        .raised(name("a", 1), crate::Token::new(500).unwrap());
    assert_eq!(due(&server), [500]);
    server.registry.client_closed(7);
    assert_eq!(due(&server), []);
}
