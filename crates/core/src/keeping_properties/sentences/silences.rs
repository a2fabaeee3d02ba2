//! Silence.

use super::{Server, name};

#[test]
fn a_connection_is_closed_after_its_silence_and_at_most_two_seconds_later() {
    for start in [0, 1, 500, 999] {
        for ms in [1000, 2500, 10_000] {
            let mut server = Server::new();
            server.pass(start);
            server.keep(name("a", 1), 7, ms, 30_000);
            let noted = server.second();
            let after = server.closed_after(7, noted).unwrap();
            assert!(
                (ms..=ms + 2000).contains(&after),
                "{after} of {ms} from {start}"
            );
        }
    }
}

#[test]
fn whoever_speaks_in_time_stays_and_is_not_asked_about_before() {
    let mut server = Server::new();
    server.keep(name("a", 1), 7, 2000, 30_000);
    for _ in 0..20 {
        server.pass(1990);
        let noted = server.second();
        server.pass(10);
        assert!(
            server.registry.to_ask(server.now(), 9).is_empty() || {
                let now = server.now();
                !server.registry.heard(7, noted, now)
            }
        );
    }
    let mut server = Server::new();
    server.keep(name("a", 1), 7, 2000, 30_000);
    server.pass(1990);
    assert!(server.registry.to_ask(server.now(), 9).is_empty());
}

#[test]
fn the_shortest_silence_of_a_connection_counts() {
    let mut server = Server::new();
    server.keep(name("a", 1), 7, 9000, 30_000);
    server.keep(name("b", 2), 7, 1000, 30_000);
    let noted = server.second();
    let after = server.closed_after(7, noted).unwrap();
    assert!(after <= 3000, "{after}");
    let mut server = Server::new();
    server.keep(name("a", 1), 7, 9000, 30_000);
    server.keep(name("b", 2), 7, 1000, 30_000);
    server.registry.released(name("b", 2));
    let noted = server.second();
    let after = server.closed_after(7, noted).unwrap();
    assert!(after >= 9000, "{after}");
}

#[test]
fn a_stall_a_pause_and_a_step_of_the_wall_clock_are_no_silence() {
    let mut server = Server::new();
    server.keep(name("a", 1), 7, 1000, 30_000);
    let noted = server.second();
    server.stall(20_000);
    let after = server.closed_after(7, noted).unwrap();
    assert!((1000..=3000).contains(&after), "{after}");

    let mut server = Server::new();
    server.keep(name("a", 1), 7, 1000, 30_000);
    let noted = server.second();
    for _ in 0..200 {
        server.monotonic += 100;
        server.wall += 100;
        server.registry.tick(server.now(), true);
        assert!(server.registry.to_ask(server.now(), 9).is_empty());
    }
    assert!(server.closed_after(7, noted).unwrap() >= 1000);

    let mut server = Server::new();
    server.keep(name("a", 1), 7, 1000, 30_000);
    server.wall += 3_600_000;
    server.pass(10);
    let noted = server.second();
    assert!(server.closed_after(7, noted).unwrap() >= 1000);
}

/// The server's own clock is looked up now and then: a moment after a step it may still be that of before, and
/// what it says of a client is off by the step.
#[test]
fn a_note_by_the_clock_of_before_a_step_closes_nobody() {
    for step in [-7_200_000, 3_600_000] {
        let mut server = Server::new();
        server.pass(8_000_500);
        server.keep(name("a", 1), 7, 2500, 30_000);
        server.pass(2400);
        let heard = server.second();
        server.pass(600);
        server.wall = server.wall.saturating_add_signed(step);
        let noted = heard.saturating_add_signed(step / 1000);
        assert!(server.registry.to_ask(server.now(), 9).is_empty());
        assert!(!server.registry.heard(7, noted, server.now()));
        server.pass(150);
        assert!(!server.registry.heard(7, noted, server.now()));
        // Soon it can be asked about again.
        assert!(server.closed_after(7, heard).is_some());
    }
}

#[test]
fn of_a_call_that_waited_silence_begins_with_the_reply() {
    let mut server = Server::new();
    server.keep(name("a", 1), 7, 1000, 30_000);
    let noted = server.second();
    server.pass(900);
    // What was waited for is kept from the reply on.
    server.keep(name("b", 2), 7, 1000, 30_000);
    let after = server.closed_after(7, noted).unwrap();
    assert!(after >= 1000, "{after}");
}

#[test]
fn few_are_asked_about_at_a_time_and_many_in_one_question() {
    let mut server = Server::new();
    for client in 1..=250 {
        server.keep(name("a", client), client, 1000, 30_000);
    }
    server.pass(1600);
    let asked: Vec<_> = (0..4)
        .map(|_| server.registry.to_ask(server.now(), 100).len())
        .collect();
    assert_eq!(asked, [100, 100, 50, 0]);
    server.pass(500);
    let again = server.registry.to_ask(server.now(), 1000).len();
    assert_eq!(again, 250, "nobody said when they were heard");
}
