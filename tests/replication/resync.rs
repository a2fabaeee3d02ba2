//! Replicas that come, go and return.

use crate::*;

/// The ways in which a replica gets its first copy: settings of both sides.
fn ways_to_sync() -> Vec<Vec<(&'static str, &'static str)>> {
    let mut ways = vec![
        vec![("repl-diskless-sync", "no")],
        vec![
            ("repl-diskless-sync", "yes"),
            ("repl-diskless-sync-delay", "0"),
        ],
        vec![
            ("repl-diskless-sync", "yes"),
            ("repl-diskless-sync-delay", "1"),
            ("repl-diskless-load", "on-empty-db"),
        ],
        vec![
            ("repl-diskless-sync", "yes"),
            ("repl-diskless-sync-delay", "0"),
            ("repl-diskless-load", "swapdb"),
        ],
    ];
    let own_channel = match Server::version() {
        version if version.is_valkey_from(8, 0) => Some("dual-channel-replication-enabled"),
        version if version.is_redis_from(8, 0) => Some("repl-rdb-channel"),
        _ => None,
    };
    ways.extend(own_channel.map(|setting| {
        vec![
            (setting, "yes"),
            ("repl-diskless-sync", "yes"),
            ("repl-diskless-sync-delay", "0"),
        ]
    }));
    ways
}

fn with(builder: Builder, settings: &[(&str, &str)]) -> Builder {
    let lines = settings.iter();
    lines.fold(builder, |builder, (name, value)| {
        builder.config(name, value)
    })
}

#[test]
fn a_replica_that_joins_while_clients_work_misses_nothing() {
    for way in ways_to_sync() {
        let primary = with(primary(), &way).start();
        // Long enough that the primary has noticed that nobody reads its stream.
        Traffic::on(&primary).run(500);
        let replicas: Vec<_> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..2)
                .map(|_| scope.spawn(|| Traffic::on(&primary).run(2000)))
                .collect();
            let replicas = (0..2)
                .map(|_| primary.replica_with(|settings| with(settings, &way)))
                .collect();
            for client in clients {
                client.join().expect("a client");
            }
            replicas
        });
        for replica in &replicas {
            assert_in_step(&primary, replica, &format!("{way:?}"));
        }
        Traffic::on(&primary).run(200);
        for replica in &replicas {
            assert_in_step(&primary, replica, &format!("{way:?}, afterwards"));
        }
    }
}

#[test]
fn a_replica_that_joins_after_the_last_release_takes_over_the_clock() {
    for way in ways_to_sync() {
        let primary = with(primary(), &way).start();
        let ahead = unix_ms() * 1000 + 86_400_000_000;
        let mut c = primary.connection();
        cmd!(c, "LOCK._APPLY", "k", effect("o", ahead, 1, 1000, -1)).okay();
        cmd!(c, "LOCK.RELEASE", "k", "o").int();
        let replica = primary.replica_with(|settings| with(settings, &way));
        assert_eq!(replica.last_token(), ahead, "{way:?}");
        follow(&replica, None);
        assert_eq!(replica.next_token(), ahead + 1, "{way:?}");
    }
}

#[test]
fn a_link_that_breaks_is_mended_by_a_partial_resync() {
    let primary = primary().start();
    let replica = primary.replica();
    let mut traffic = Traffic::on(&primary);
    let full = primary.number("stats", "sync_full");
    for round in 1..=2 {
        traffic.run(100);
        // A link that breaks while the replica flushes needs a full resync on Redis 8.
        primary.wait_for_sync(&replica);
        cmd!(primary.connection(), "CLIENT", "KILL", "TYPE", "replica").int();
        traffic.run(800);
        assert_in_step(&primary, &replica, &format!("after break {round}"));
        assert_eq!(primary.number("stats", "sync_partial_ok"), round);
    }
    assert_eq!(primary.number("stats", "sync_full"), full);
}

#[test]
fn a_replica_that_comes_back_when_the_backlog_is_gone_gets_everything_anew() {
    let primary = primary().config("repl-backlog-ttl", "1").start();
    let mut replica = primary.replica_with(|settings| settings.config("save", "3600 1"));
    let mut traffic = Traffic::on(&primary);
    traffic.run(300);
    primary.wait_for_sync(&replica);
    for round in 0..2 {
        replica.stop();
        let freed = || primary.number("replication", "repl_backlog_active") == 0;
        eventually(freed, "the backlog to be freed");
        traffic.run(800);
        replica.restart();
        replica.wait_for_link();
        traffic.run(100);
        assert_in_step(&primary, &replica, &format!("round {round}"));
        assert_eq!(primary.number("stats", "sync_full"), round + 2);
    }
}

#[test]
fn a_primary_that_restarts_with_its_data_goes_on_feeding_its_replica() {
    let mut primary = primary().config("save", "3600 1").start();
    let replica = primary.replica();
    let mut traffic = Traffic::on(&primary);
    for round in 0..2 {
        traffic.run(500);
        primary.wait_for_sync(&replica);
        primary.restart();
        traffic.move_to(&primary);
        // At once, while the replica may not be back yet.
        traffic.run(500);
        assert_in_step(&primary, &replica, &format!("restart {round}"));
    }
    assert!(primary.next_token() > traffic.highest());
}

#[test]
fn an_append_only_file_switched_on_while_clients_work_misses_nothing() {
    for preamble in ["yes", "no"] {
        let mut server = primary().config("aof-use-rdb-preamble", preamble).start();
        Traffic::on(&server).run(500);
        std::thread::scope(|scope| {
            let client = scope.spawn(|| Traffic::on(&server).run(1500));
            cmd!(server.connection(), "CONFIG", "SET", "appendonly", "yes").okay();
            client.join().expect("a client");
        });
        server.wait_for_rewrite();
        Traffic::on(&server).run(300);
        let before = server.state();
        server.restart_with("appendonly", "yes");
        assert_same(&before, &server.state(), preamble);

        // And off, and on again.
        let mut c = server.connection();
        cmd!(c, "CONFIG", "SET", "appendonly", "no").okay();
        Traffic::on(&server).run(300);
        cmd!(c, "CONFIG", "SET", "appendonly", "yes").okay();
        Traffic::on(&server).run(300);
        server.wait_for_rewrite();
        let before = server.state();
        server.kill9();
        server.restart();
        assert_same(&before, &server.state(), preamble);
    }
}
