//! Effects that this version does not know, or cannot read, in a file and on the stream. The server
//! passes over a command that fails: so the lock is removed, and nobody continues with an older state.

use crate::link::Primary;
use crate::*;
use redis::{Cmd, cmd as command};
use std::fs::OpenOptions;
use std::io::Write;

/// What a later version says of its token counts all the same.
const AHEAD: i64 = 5_000_000_000_000_000;

/// Effects that are not applied, and what is said of them.
fn unknown() -> Vec<(Vec<u8>, String)> {
    let good = effect("o", AHEAD, 1, 60_000, -1);
    let of_version = |version: u8| {
        let known = "this version of the module reads only versions 1 and 2";
        // The highest bit says that nobody is told.
        let error = format!("effect of version {} ({known})", version & 127);
        ([&[version], &good[1..], b"more"].concat(), error)
    };
    let damaged = |effect: &[u8]| {
        let error = "truncated or damaged effect".to_owned();
        (effect.to_vec(), error)
    };
    vec![
        of_version(3),
        of_version(0),
        of_version(255),
        damaged(b""),
        damaged(&good[..1]),
        damaged(&good[..good.len() - 1]),
        damaged(&effect("o", 0, 1, 60_000, -1)),
        damaged(&effect("o", 5, 0, 60_000, -1)),
        damaged(&effect("o", 5, 1, 60_000, -7)),
        damaged(&[&[2], &good[1..]].concat()),
        (
            share_that_goes(),
            "effect that was made for another state of the lock".to_owned(),
        ),
    ]
}

/// A share goes from a lock that has none. Version, latest end, token, step, holders left.
fn share_that_goes() -> Vec<u8> {
    let end = i64::MAX.to_le_bytes();
    [
        &[2],
        &end[..],
        &AHEAD.to_le_bytes()[..7],
        &[2],
        &[1, 0, 0, 0],
    ]
    .concat()
}

fn key(number: usize) -> String {
    format!("lock\n{number}")
}

/// Locks that are held, and other keys, of which one is to be in a lock's place.
#[track_caller]
fn prepare(server: &Server) {
    let mut c = server.connection();
    for number in 0..unknown().len() {
        cmd!(c, "LOCK.ACQUIRE", key(number), "o", "PX", 600_000).grant();
    }
    cmd!(c, "LOCK.ACQUIRE", "kept", "o", "PX", 600_000).grant();
    cmd!(c, "SET", "text", "v").okay();
    cmd!(c, "SET", "other", "v").okay();
}

/// Commands as they stand in a file or on the stream.
fn commands() -> Vec<u8> {
    let apply = |key: &str, effect: &[u8]| -> Cmd {
        let mut apply = command("lock._apply");
        apply.arg(key).arg(effect);
        apply
    };
    let unknown = unknown();
    let mut commands = vec![command("SELECT")];
    commands[0].arg(0);
    let all = unknown.iter().enumerate();
    commands.extend(all.map(|(number, (effect, _))| apply(&key(number), effect)));
    commands.push(apply("text", &unknown[0].0));
    commands.push(apply("not there", &unknown[0].0));
    let mut last = command("SET");
    last.arg("last").arg("v");
    commands.push(last);
    commands.iter().flat_map(Cmd::get_packed_command).collect()
}

/// Demands that all of it was done, and told of.
#[track_caller]
fn is_removed_and_told(server: &Server) {
    is_removed(server);
    let log = server.log();
    for (number, (_, error)) in unknown().iter().enumerate() {
        let line = format!("error: the lock 'lock\\n{number}' is removed: {error}");
        assert!(log.contains(&line), "{line:?} is not in {log}");
    }
}

#[track_caller]
fn is_removed(server: &Server) {
    let mut c = server.connection();
    let keys = cmd!(c, "KEYS", "*").items();
    let mut keys: Vec<_> = keys.into_iter().map(Expect::text).collect();
    keys.sort();
    assert_eq!(keys, ["kept", "last", "other"]);
    cmd!(c, "LOCK.INFO", "kept").lock_info();
    assert_eq!(server.signs_of_a_crash(), [""; 0]);
}

#[test]
fn in_a_file_they_remove_the_lock() {
    for preamble in PREAMBLES {
        let mut server = append_only(preamble).start();
        prepare(&server);
        server.stop();
        let last = aof_part(&server, ".incr.aof");
        let file = OpenOptions::new().append(true).open(last);
        let mut file = file.expect("a file");
        file.write_all(&commands()).expect("the file to grow");
        server.restart();
        is_removed_and_told(&server);
        assert_eq!(server.last_token(), AHEAD);
        assert_eq!(server.next_token(), AHEAD + 1);
        server.restart();
        assert!(server.next_token() > AHEAD + 1);
        rewrite_aof(&server);
        server.restart();
        is_removed(&server);
    }
}

#[test]
fn on_the_stream_they_remove_the_lock() {
    let source = Server::start();
    prepare(&source);
    cmd!(source.connection(), "SAVE").okay();
    let start = fs::read(source.dir().join("dump.rdb")).expect("a file");
    let primary = Primary::of(start, commands());
    let mut replica = primary.replica(append_only("no"));
    is_removed_and_told(&replica);
    assert_eq!(replica.last_token(), AHEAD);
    replica.wait_for_rewrite();
    // Its own file says that they are gone.
    replica.restart_with("replicaof", "no one");
    is_removed(&replica);
    assert!(replica.next_token() > 0);
}
