//! Random company: whatever holders do, primary, replica, file and the naive rule agree.

use crate::holders::{Holder, holders_of};
use crate::stored::PREAMBLES;
use crate::support::run;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis::{Connection, Value};
use testbed::state::{State, assert_same};
use testbed::{Expect, Server, cmd, started};

const KEYS: usize = 4;

/// One call of a random holder, as words.
fn call(random: &mut StdRng) -> (String, String) {
    let key = format!("k{}", random.random_range(0..KEYS));
    // Many owners, so that locks come to have few and many holders.
    let owner = format!("o{}", random.random_range(0..40));
    let limit =
        ["", " SHARED", " SHARED", " SHARED", " LIMIT 2", " LIMIT 30"][random.random_range(0..6)];
    let lease = match random.random_range(0..10) {
        0 => random.random_range(1..20),
        1..4 => random.random_range(20..600),
        _ => random.random_range(100_000..900_000),
    };
    let words = match random.random_range(0..100) {
        0..50 => format!("LOCK.ACQUIRE {key} {owner}{limit} PX {lease}"),
        50..75 => format!(
            "LOCK.RELEASE {key} {owner}{}",
            ["", " ALL", " HOLDS 1"][random.random_range(0..3)]
        ),
        75..90 => format!("LOCK.RENEW {key} {owner}{limit} PX {lease}"),
        90..93 => format!("PEXPIRE {key} {lease}"),
        93..95 => format!("PERSIST {key}"),
        95 => format!("DEL {key}"),
        96 => format!("RENAME {key} k0"),
        97 => format!("LOCK.HOLDERS {key}"),
        _ => format!("LOCK.FENCE {key}"),
    };
    (key, words)
}

/// No lock has more holders than one of them allows, and tokens rise.
#[track_caller]
fn is_sound(holders: &[Holder], after: &str) {
    let count = i64::try_from(holders.len()).expect("small");
    assert!(
        holders
            .iter()
            .all(|holder| holder.limit == 0 || count <= holder.limit),
        "{after}: {holders:?}"
    );
    assert!(
        holders.is_sorted_by(|one, next| one.token < next.token),
        "{after}: {holders:?}"
    );
    let mut owners: Vec<_> = holders.iter().map(|holder| &holder.owner).collect();
    owners.sort();
    owners.dedup();
    assert_eq!(owners.len(), holders.len(), "{after}: {holders:?}");
}

fn play(c: &mut Connection, random: &mut StdRng, calls: usize) {
    for _ in 0..calls {
        let (key, words) = call(random);
        let _ = run(c, &words);
        if random.random_range(0..5) == 0 {
            is_sound(&holders_of(c, &key), &words);
        }
    }
}

/// All keys with their digests and expiry. What `LOCK.INFO` tells changes while shares end.
fn state(server: &Server) -> State {
    let mut state = server.whole_state();
    for stored in state.values_mut() {
        stored.lock = None;
    }
    state
}

/// What all databases hold, by the server's own digest.
fn digest(c: &mut Connection) -> String {
    run(c, "DEBUG DIGEST").text()
}

#[test]
fn replicas_and_files_come_to_the_same() {
    let seed = testbed::traffic::seed("SHARING_SEED");
    let mut random = StdRng::seed_from_u64(seed);
    for preamble in PREAMBLES {
        let mut server = Server::builder()
            .config("appendonly", "yes")
            .config("aof-use-rdb-preamble", preamble)
            .start();
        let replica = server.replica();
        for part in 0..6 {
            let mut c = server.connection();
            play(&mut c, &mut random, 1500);
            server.wait_for_sync(&replica);
            let states = [state(&server), state(&replica)];
            assert_same(&states[0], &states[1], "on the replica");
            if part % 2 == 1 {
                // Refused where the one before is still at it.
                let _ = run(&mut c, "BGREWRITEAOF");
            }
        }
        let mut c = server.connection();
        // What still ends would differ by the moment at which it is looked at.
        run(&mut c, "DEBUG SET-ACTIVE-EXPIRE 0").okay();
        server.wait_for_sync(&replica);
        assert_eq!(digest(&mut c), digest(&mut replica.connection()));
        let before = state(&server);
        server.restart();
        assert_same(&before, &state(&server), "after a restart");
        for key in 0..KEYS {
            is_sound(
                &holders_of(&mut server.connection(), &format!("k{key}")),
                "a restart",
            );
        }
        assert!(!server.log().contains("error:"), "{}", server.log());
        assert!(!replica.log().contains("error:"), "{}", replica.log());
    }
}

/// A replica that comes in the middle begins with whole locks.
#[test]
fn replicas_that_come_and_go_agree() {
    let seed = testbed::traffic::seed("SHARING_SEED");
    let mut random = StdRng::seed_from_u64(seed);
    let (server, mut c) = started();
    for _ in 0..4 {
        play(&mut c, &mut random, 500);
        let replica = server.replica();
        play(&mut c, &mut random, 500);
        server.wait_for_sync(&replica);
        assert_same(&state(&server), &state(&replica), "on the replica");
        assert!(!replica.log().contains("error:"), "{}", replica.log());
    }
    let reply = cmd!(c, "LOCK.HOLDERS", "k0").value();
    assert!(matches!(reply, Value::Array(_)));
}
