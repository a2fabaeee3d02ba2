//! Files that are cut off or changed: refused with a reason in the log, never a crash.

use crate::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::ops::Range;
use testbed::dump;

/// A stopped server whose stored locks carry no checksum, and where in the file the value of one of
/// them lies.
///
/// The file is the RDB part of an append-only file. Where a `dump.rdb` cannot be read, the server
/// runs its own check over the file before it goes, and that check never ends when the file is cut
/// off between two fields of a module's value (redis/redis#15034).
pub(crate) struct Saved {
    server: Server,
    file: PathBuf,
    pub(crate) whole: Vec<u8>,
    pub(crate) value: Range<usize>,
}

impl Saved {
    /// Of locks of one holder each.
    pub(crate) fn new() -> Self {
        Self::of("LIMIT 1")
    }

    /// Of locks, each with as many holders as this limit lets in.
    fn of(limit: &str) -> Self {
        let mut server = append_only("yes").config("rdbchecksum", "no").start();
        let value = take_locks(&server, limit);
        rewrite_aof(&server);
        server.stop();
        let file = aof_part(&server, ".base.rdb");
        let whole = fs::read(&file).expect("its bytes");
        Self {
            value: position(&whole, &value),
            server,
            file,
            whole,
        }
    }

    /// Starts the server on these bytes: it comes up, or says why it does not.
    #[track_caller]
    pub(crate) fn load(&mut self, bytes: &[u8], what: &str) -> Result<(), String> {
        fs::write(&self.file, bytes).expect("a file");
        let outcome = self.server.try_restart();
        match &outcome {
            Ok(()) => check_locks(&self.server, what),
            Err(log) => {
                let reasons = [
                    "not able to load",
                    "Internal error in RDB",
                    "Short read",
                    "can't load",
                    "error reading",
                    "Terminating server",
                ];
                let has_reason = reasons.iter().any(|reason| log.contains(reason));
                assert!(has_reason, "{what}: {log}");
            }
        }
        self.server.kill9();
        assert_eq!(self.server.signs_of_a_crash(), [""; 0], "{what}");
        outcome
    }
}

/// What the module says in this log, in lines of this level: `#` for warnings, `-` for verbose.
pub(crate) fn reasons(log: &str, level: char) -> Vec<String> {
    let mark = format!(" {level} <lock> ");
    let reason = |line: &str| Some(line.split_once(&mark)?.1.to_owned());
    log.lines().filter_map(reason).collect()
}

/// Takes four locks, each with as many holders as this limit lets in; the stored value of one of them,
/// behind the byte that says that it is a module's.
fn take_locks(server: &Server, limit: &str) -> Vec<u8> {
    let mut c = server.connection();
    for (key, holder) in (0..4).flat_map(|n| (0..3).map(move |holder| (format!("k{n}"), holder))) {
        let words = format!("LOCK.ACQUIRE {key} owner:{holder} {limit} HOLDS 1 EX 900");
        if testbed::run(&mut c, &words).value() != redis::Value::Nil {
            testbed::run(&mut c, &words.replace("HOLDS 1", "HOLDS 2")).grant();
        }
    }
    let (value, _) = dump::split(&cmd!(c, "DUMP", "k2").bytes());
    value[1..].to_vec()
}

fn position(whole: &[u8], part: &[u8]) -> Range<usize> {
    let start = whole.windows(part.len()).position(|bytes| bytes == part);
    let start = start.expect("the value in the file");
    start..start + part.len()
}

/// Whatever was loaded is a lock within all bounds.
#[track_caller]
fn check_locks(server: &Server, what: &str) {
    for (place, stored) in server.whole_state() {
        // Shares may have ended; the key is there all the same.
        let Some((owner, token, holds, lease)) = stored.lock else {
            continue;
        };
        let sound = (1..=256).contains(&owner.len())
            && (1..1 << 53).contains(&token)
            && (1..1 << 31).contains(&holds)
            && (1..=315_360_000_000).contains(&lease);
        assert!(sound, "{what}: {place:?} {owner:?} {token} {holds} {lease}");
    }
}

fn cut_off_anywhere_it_is_refused(mut saved: Saved) {
    let whole = saved.whole.clone();
    for end in saved.value.clone() {
        let outcome = saved.load(&whole[..end], &format!("{end} bytes"));
        outcome.expect_err("a refusal");
    }
    saved.load(&whole, "the whole file").expect("a start");
}

#[test]
fn a_file_cut_off_within_a_lock_is_refused() {
    cut_off_anywhere_it_is_refused(Saved::new());
}

#[test]
fn a_file_cut_off_within_shares_is_refused() {
    cut_off_anywhere_it_is_refused(Saved::of("LIMIT 3"));
}

#[test]
fn a_file_changed_within_a_lock_is_refused_or_gives_sound_locks() {
    changed_anywhere_it_is_refused_or_sound(Saved::new());
}

#[test]
fn a_file_changed_within_shares_is_refused_or_gives_sound_locks() {
    changed_anywhere_it_is_refused_or_sound(Saved::of("LIMIT 3"));
}

fn changed_anywhere_it_is_refused_or_sound(mut saved: Saved) {
    let seed = testbed::traffic::seed();
    let mut random = StdRng::seed_from_u64(seed);
    let mut refused = 0;
    for round in 0..120 {
        let mut bytes = saved.whole.clone();
        let at = random.random_range(saved.value.clone());
        bytes[at] = match round % 3 {
            0 => random.random(),
            1 => bytes[at] ^ (1 << random.random_range(0..8)),
            _ => [0, 0xff][random.random_range(0..2)],
        };
        let what = format!("byte {} of {:?} is {}", at, saved.value, bytes[at]);
        if saved.load(&bytes, &what).is_err() {
            refused += 1;
        }
    }
    assert!(refused > 20, "{refused} refusals");
}

#[test]
fn a_lock_of_a_later_encoding_is_refused_with_a_reason() {
    let mut saved = Saved::new();
    let mut bytes = saved.whole.clone();
    // The module's id ends with ten bits of the encoding's version: 1, here made 2.
    let id_end = saved.value.start + 8;
    let form = bytes[id_end] & 3;
    assert_eq!(form, 1, "the version stands where this test thinks");
    bytes[id_end] ^= 3;
    let log = saved.load(&bytes, "encoding 2").expect_err("a refusal");
    assert!(log.contains("module data for the module"), "{log}");
    let reason =
        "a stored lock is refused: format 2 (this version of the module reads only format 1)";
    assert_eq!(reasons(&log, '#'), [reason]);
}
