//! `RESTORE` of locks that were tampered with, sealed with a valid checksum.

use crate::invariants::{check_info, check_log, check_server};
use crate::values::Values;
use crate::wire::Wire;
use crate::*;
use redis::Value;
use testbed::state::assert_same;

const BATCH: usize = 200;
/// First bytes of lengths (6, 14, 32 and 64 bits) and of the special encodings, and opcodes.
const LENGTHS: [u8; 13] = [
    0, 1, 2, 5, 0x3f, 0x40, 0x7f, 0x80, 0x81, 0xc0, 0xc2, 0xc3, 0xff,
];
/// Few, so that payloads also meet keys that are there.
const KEYS: usize = 50;

#[test]
fn a_tampered_payload_is_refused_or_makes_a_sound_lock() {
    let count = amount("HOSTILE_PAYLOADS", 1500);
    let mut server = Server::start();
    let pid = server.pid();
    let mut forge = Forge::new(&server, Values::new(seed()));
    let (mut accepted, mut refused) = (0, 0);
    for batch in 0..count.div_ceil(BATCH) {
        let attempts: Vec<_> = (0..BATCH).map(|_| forge.restore()).collect();
        for (key, _, restore) in &attempts {
            forge.wire.send([restore, redis::cmd("LOCK.INFO").arg(key)]);
        }
        for (_, payload, _) in &attempts {
            let restored = forge.wire.receive();
            let looked = forge.wire.receive();
            let clue = || payload.escape_ascii().to_string();
            match (&restored, looked) {
                (Ok(_), Ok(Value::Nil)) => accepted += 1, // a deadline in the past
                (Ok(_), info) => {
                    let info = info.unwrap_or_else(|e| panic!("{e} of {}", clue()));
                    check_info(&info.lock_info());
                    accepted += 1;
                }
                (Err(refusal), _) => {
                    let known = refusal.starts_with("ERR ") || refusal.starts_with("BUSYKEY ");
                    assert!(known, "{refusal} to {}", clue());
                    refused += 1;
                }
            }
        }
        if batch % 10 == 0 {
            check_server(&server);
        }
    }
    println!("{accepted} payloads accepted, {refused} refused");
    assert!(accepted * 50 > count, "{accepted} of {count} accepted");
    assert!(refused * 4 > count, "{refused} of {count} refused");

    check_server(&server);
    let pid_now = server.number("server", "process_id");
    assert_eq!(pid_now, i64::from(pid), "the same process");
    let before = server.state();
    cmd!(server.connection(), "DEBUG", "RELOAD").okay();
    assert_same(&before, &server.state(), "after DEBUG RELOAD");
    cmd!(server.connection(), "SAVE").okay();
    server.restart();
    assert_same(&before, &server.state(), "after a restart");
    check_log(&server);

    let (_other, mut c) = started();
    cmd!(c, "LOCK.ACQUIRE", "k", "o").grant();
    assert_eq!(cmd!(c, "LOCK.RELEASE", "k", "o").int(), 0);
}

struct Forge {
    wire: Wire,
    values: Values,
    /// The stored form of real locks, behind the byte that says that it is a module's.
    originals: Vec<Vec<u8>>,
    kind: u8,
    rdb_version: u16,
}

impl Forge {
    fn new(server: &Server, values: Values) -> Self {
        let mut connection = server.connection();
        let mut originals = Vec::new();
        let (mut kind, mut rdb_version) = (0, 0);
        let owners = [
            &b"o"[..],
            b"\0\xff\r\n",
            b"12345",
            &[b'w'; 60],
            &[0xfe; 256],
        ];
        for owner in owners {
            for (token, holds, lease) in [
                (1_i64, 1_i64, 1_i64),
                (77, 2, 30_000),
                (1_795_000_000_000_000, 1, 600_000),
                ((1 << 53) - 1, (1 << 31) - 1, 315_360_000_000),
            ] {
                let effect = effect(owner, token, holds, lease, -1);
                cmd!(connection, "LOCK._APPLY", "k", effect).okay();
                let (stored, version) = dump::split(&cmd!(connection, "DUMP", "k").bytes());
                (kind, rdb_version) = (stored[0], version);
                originals.push(stored[1..].to_vec());
            }
        }
        Self {
            wire: Wire::to(server),
            values,
            originals,
            kind,
            rdb_version,
        }
    }

    /// A key, the payload, and the command that restores it there.
    fn restore(&mut self) -> (String, Vec<u8>, redis::Cmd) {
        let index = self.values.below(self.originals.len());
        let mut stored = self.originals[index].clone();
        for _ in 0..=self.values.below(3) {
            self.tamper(&mut stored);
        }
        // The first byte stays: any other kind of value is the server's to read, not the module's.
        stored.insert(0, self.kind);
        let payload = dump::reseal(&stored, self.rdb_version);

        let key = format!("key {}", self.values.below(KEYS));
        let mut restore = redis::cmd("RESTORE");
        restore.arg(&key);
        restore.arg(
            self.values
                .one_of(&[0, 0, 0, 1, 60_000, 4_000_000_000_000_i64]),
        );
        restore.arg(&payload);
        if !self.values.one_in(8) {
            restore.arg("REPLACE");
        }
        if self.values.one_in(8) {
            restore.arg("ABSTTL");
        }
        (key, payload, restore)
    }

    fn tamper(&mut self, stored: &mut Vec<u8>) {
        if stored.is_empty() {
            return;
        }
        let values = &mut self.values;
        let at = values.below(stored.len());
        match values.below(10) {
            0 | 1 => stored[at] ^= 1 << values.below(8),
            2 => stored[at] = values.one_of(&LENGTHS),
            3 => stored.truncate(at),
            4 => {
                let more = values.bytes(12);
                stored.splice(at..at, more);
            }
            5 => {
                let end = at + values.below(stored.len() - at + 1);
                stored.drain(at..end);
            }
            6 => {
                let other = &self.originals[values.below(self.originals.len())];
                let cut = values.below(other.len());
                stored.truncate(at);
                stored.extend(&other[cut..]);
            }
            7 => {
                let mut number = vec![0x81];
                let value =
                    values.one_of(&[0, 1, 255, 257, 1 << 31, 1 << 32, 1 << 53, 1 << 62, u64::MAX]);
                number.extend(value.to_be_bytes());
                let end = (at + values.one_of(&[1, 2, 5, 9])).min(stored.len());
                stored.splice(at..end, number);
            }
            8 => {
                let end = at + values.below(stored.len() - at + 1);
                let part = stored[at..end].to_vec();
                stored.splice(at..at, part);
            }
            // As it was: what is accepted stays among what is sent.
            _ => {}
        }
    }
}
