//! What earlier versions of the module have stored is read by this one, exactly.
//!
//! `kept/<version of the module>/` has what that version stored, in a folder for each server that
//! it ran on; `locks.txt` there tells what is in each of them. A server reads those whose RDB
//! version it knows; the others are passed over, with a word about it.
//!
//! A new version adds what it stores, and leaves what older ones have stored as it is:
//!
//! ```text
//! scripts/matrix.sh scripts/tests.sh --test persistence --run-ignored only keep_what_this_version_stores
//! ```

mod content;
mod make;

use crate::*;
use std::path::Path;
use std::sync::OnceLock;
use testbed::{Kind, aof, dump, started};

/// What is in a folder.
const DUMP: &str = "dump.rdb";
const PAYLOADS: &str = "payloads";
const STREAM_START: &str = "stream-start.rdb";
const STREAM: &str = "stream";
/// The append-only files: `aof-use-rdb-preamble`, and whether they were rewritten in between.
const APPEND_ONLY: [(&str, &str, bool); 3] = [
    ("rewritten-with-preamble", "yes", true),
    ("rewritten", "no", true),
    ("commands-alone", "no", false),
];
const LOCKS: &str = "locks.txt";

/// What one version of the module has stored on one server.
struct Kept {
    folder: PathBuf,
    locks: String,
}

impl Kept {
    /// All that is kept.
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for version in paths_in(&root()).filter(|path| path.is_dir()) {
            let locks = String::from_utf8(read(&version.join(LOCKS))).expect("text");
            let folders = paths_in(&version).filter(|path| path.is_dir());
            all.extend(folders.map(|folder| Self {
                folder,
                locks: locks.clone(),
            }));
        }
        assert!(all.len() >= 4, "{} folders", all.len());
        all
    }

    /// A file, where this server knows its RDB version or it has none.
    #[track_caller]
    fn file(&self, name: &str) -> Option<Vec<u8>> {
        let file = read(&self.folder.join(name));
        let own = own_rdb_version();
        match rdb_version_of(&file) {
            Some(version) if !is_read_by(version, own) => {
                let what = self.short(name);
                println!("skipped: {what} is of RDB version {version}, this server's is {own}");
                // Everybody reads what Redis 7.0 writes, and what it has written itself.
                let server = self.folder.file_name().and_then(|name| name.to_str());
                assert_ne!(server, Some("redis-7.0"));
                assert_ne!(server, Some(&*name_of_this_server()));
                None
            }
            _ => Some(file),
        }
    }

    /// Demands that this server holds what is kept, and that its tokens go on from there.
    #[track_caller]
    fn is_in(&self, server: &Server, name: &str) {
        let what = self.short(name);
        assert_eq!(content::described(server), self.locks, "{what}");
        let last = server.last_token();
        assert!(server.next_token() > last, "{what}");
        println!("read: {what}");
    }

    /// A file's path for people.
    fn short(&self, name: &str) -> String {
        let path = self.folder.join(name);
        let short = path.strip_prefix(root()).unwrap_or(&path);
        short.display().to_string()
    }
}

fn root() -> PathBuf {
    testbed::module::root().join("tests/persistence/kept")
}

fn paths_in(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries.map(|entry| entry.expect("a folder's entry").path())
}

fn read(file: &Path) -> Vec<u8> {
    fs::read(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// The name of the folder for this server.
fn name_of_this_server() -> String {
    let version = Server::version();
    let kind = match version.kind {
        Kind::Redis => "redis",
        Kind::Valkey => "valkey",
    };
    let (major, minor, _) = version.number;
    format!("{kind}-{major}.{minor}")
}

/// The RDB version that this server writes, by the payloads that it makes.
fn own_rdb_version() -> u16 {
    static VERSION: OnceLock<u16> = OnceLock::new();
    *VERSION.get_or_init(|| {
        let (_server, mut c) = started();
        cmd!(c, "SET", "any", "v").okay();
        dump::split(&cmd!(c, "DUMP", "any").bytes()).1
    })
}

/// The RDB version in the head of a file, `REDIS0010` or `VALKEY080`.
fn rdb_version_of(file: &[u8]) -> Option<u16> {
    let after = |mark: &[u8]| file.strip_prefix(mark);
    let digits = after(b"REDIS").map(|rest| &rest[..4]);
    let digits = digits.or_else(|| after(b"VALKEY").map(|rest| &rest[..3]))?;
    Some(str::from_utf8(digits).ok()?.parse().expect("a number"))
}

/// Whether a server that writes the RDB version `own` reads `version`: none that is later. From 12
/// on to 79 they are Redis's alone, and from 80 on Valkey's.
fn is_read_by(version: u16, own: u16) -> bool {
    version <= own && (own < 80 || !(12..80).contains(&version))
}

#[test]
fn in_an_rdb_file() {
    for kept in Kept::all() {
        let Some(file) = kept.file(DUMP) else {
            continue;
        };
        let mut server = Server::start();
        server.stop();
        fs::write(server.dir().join(DUMP), file).expect("a file");
        server.restart();
        kept.is_in(&server, DUMP);
    }
}

#[test]
fn in_append_only_files() {
    for (name, preamble, _) in APPEND_ONLY {
        for kept in Kept::all() {
            let files = paths_in(&kept.folder.join(name)).map(|path| {
                let file = path.file_name()?.to_str()?.to_owned();
                let bytes = kept.file(&format!("{name}/{file}"))?;
                Some((file, bytes))
            });
            let Some(files) = files.collect::<Option<Vec<_>>>() else {
                continue;
            };
            let mut server = append_only(preamble).start();
            server.stop();
            let folder = server.dir().join("appendonlydir");
            for path in paths_in(&folder) {
                fs::remove_file(path).expect("a file to remove");
            }
            for (file, bytes) in files {
                fs::write(folder.join(file), bytes).expect("a file");
            }
            server.restart();
            kept.is_in(&server, name);
        }
    }
}

#[test]
fn in_payloads_to_restore() {
    let own = own_rdb_version();
    for kept in Kept::all() {
        let (server, mut c) = started();
        let commands = aof::parse(&read(&kept.folder.join(PAYLOADS)));
        for mut command in commands {
            if command[0] == b"RESTORE" {
                let (value, version) = dump::split(&command[3]);
                if !is_read_by(version, own) {
                    // The lock within is the same; the server asks for a footer that it knows.
                    command[3] = dump::reseal(&value, own);
                }
            }
            cmd!(c, &command[0], &command[1..]).okay();
        }
        // The clock is beside the locks, and so in no payload.
        let [told, locks] = [content::described(&server), kept.locks.clone()].map(|text| {
            let lines = text.lines().filter(|line| !line.starts_with("token clock"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        });
        let what = kept.short(PAYLOADS);
        assert_eq!(told, locks, "{what}");
        println!("read: {what}");
    }
}

#[test]
fn in_the_stream_of_a_primary() {
    for kept in Kept::all() {
        let Some(start) = kept.file(STREAM_START) else {
            continue;
        };
        let primary = link::Primary::of(start, read(&kept.folder.join(STREAM)));
        let replica = primary.replica(Server::builder());
        assert_eq!(content::described(&replica), kept.locks);
        cmd!(replica.connection(), "REPLICAOF", "NO", "ONE").okay();
        kept.is_in(&replica, STREAM);
    }
}
