//! Restarts by an RDB file.

use crate::*;

#[test]
fn a_restart_by_rdb_keeps_every_lock_and_the_clock() {
    let mut server = Server::start();
    let mut traffic = Traffic::on(&server);
    for _ in 0..3 {
        traffic.run(600);
        let before = Before::of(&server, &mut traffic);
        cmd!(server.connection(), "SAVE").okay();
        server.restart();
        before.is_kept_by(&server, "after a restart");
        traffic.move_to(&server);
    }
}

#[test]
fn the_limits_of_every_field_survive_every_way_of_keeping_them() {
    for (way, builder, keep) in ways_to_keep() {
        let (mut server, mut c) = builder.started();
        let mut count = 0;
        for owner in [&b"\0"[..], b"\r\n%s", &[0xff; 256]] {
            for token in [1, 1 << 52, (1_i64 << 53) - 1] {
                for (holds, lease) in [(1, 1_i64), (2, 1), ((1 << 31) - 1, 315_360_000_000)] {
                    for deadline in [-1, unix_ms() + 100_000, 1 << 53, i64::MAX] {
                        count += 1;
                        let effect = effect(owner, token, holds, lease, deadline);
                        cmd!(c, "LOCK._APPLY", count, effect).okay();
                        let info = cmd!(c, "LOCK.INFO", count).lock_info();
                        let told = (info.owner, info.token, info.holds, info.lease_ms);
                        assert_eq!(told, (owner.to_vec(), token, holds, lease));
                    }
                }
            }
        }
        let before = server.state();
        assert_eq!(before.len(), count);
        keep(&server);
        server.restart();
        assert_same(&before, &server.state(), way);
        let mut c = server.connection();
        let text = cmd!(c, "LOCK.ACQUIRE", "free", "o").refused("ERR");
        assert!(text.contains("no fencing token is left"), "{text}");
    }
}

#[test]
fn every_change_counts_towards_a_save_point() {
    let (server, mut c) = started();
    let changes = || server.number("persistence", "rdb_changes_since_last_save");
    for (command, counts) in [
        ("LOCK.ACQUIRE k o", true),
        ("LOCK.ACQUIRE k o", true),
        ("LOCK.RENEW k o PX 90000", true),
        ("LOCK.RELEASE k o", true),
        ("LOCK.RELEASE k o HOLDS 1", false),
        ("LOCK.ACQUIRE k other", false),
        ("LOCK.RENEW k other", false),
        ("LOCK.FENCE k", false),
        ("LOCK.INFO k", false),
        ("LOCK.RELEASE k o", true),
        ("LOCK.RELEASE k o", false),
    ] {
        let before = changes();
        let _ = testbed::run(&mut c, command);
        assert_eq!(changes() > before, counts, "{command}");
    }
}

#[test]
fn a_persisted_lock_stays_without_an_end() {
    let (mut server, mut c) = started();
    cmd!(c, "LOCK.ACQUIRE", "k", "o", "PX", 70_000).grant();
    cmd!(c, "LOCK.ACQUIRE", "k", "o").grant();
    assert_eq!(cmd!(c, "PERSIST", "k").int(), 1);
    let before = cmd!(c, "LOCK.INFO", "k").lock_info();
    assert_eq!(before.ttl_ms, -1);
    cmd!(c, "SAVE").okay();
    server.restart();
    let mut c = server.connection();
    let after = cmd!(c, "LOCK.INFO", "k").lock_info();
    let told = (after.ttl_ms, after.holds, after.lease_ms, after.token);
    assert_eq!(told, (-1, 2, 70_000, before.token));
    // A partial release leaves it so, a renewal takes the lease up again.
    assert_eq!(cmd!(c, "LOCK.RELEASE", "k", "o").int(), 1);
    assert_eq!(cmd!(c, "PTTL", "k").int(), -1);
    cmd!(c, "LOCK.RENEW", "k", "o").grant();
    assert!((60_000..=70_000).contains(&cmd!(c, "PTTL", "k").int()));
}
