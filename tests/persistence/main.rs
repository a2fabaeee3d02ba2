//! What outlives a restart or a crash: every lock, and the order of the fencing tokens.

mod aof;
mod crash;
mod damage;
mod kept;
mod link;
mod rdb;
mod refusals;
mod tokens;
mod unknown;
mod without_module;

use std::fs;
use std::path::PathBuf;
use testbed::state::{State, Stored, assert_same, unix_ms};
use testbed::traffic::Traffic;
use testbed::{Builder, Expect, Server, cmd, effect, eventually, started};

/// Both forms in which an append-only file is rewritten.
const PREAMBLES: [&str; 2] = ["yes", "no"];

/// A server that keeps an append-only file.
fn append_only(preamble: &str) -> Builder {
    Server::builder()
        .config("appendonly", "yes")
        .config("aof-use-rdb-preamble", preamble)
}

/// Rewrites the append-only file, and waits until the new one is in use.
#[track_caller]
fn rewrite_aof(server: &Server) {
    cmd!(server.connection(), "BGREWRITEAOF").value();
    server.wait_for_rewrite();
}

/// The file of a server's append-only folder whose name ends like this.
#[track_caller]
fn aof_part(server: &Server, end: &str) -> PathBuf {
    let files = fs::read_dir(server.dir().join("appendonlydir")).expect("a folder");
    let mut files = files.map(|file| file.expect("a file").path());
    let found = files.find(|path| path.to_string_lossy().ends_with(end));
    found.unwrap_or_else(|| panic!("no file *{end}"))
}

/// What is done before a restart.
type Keep = fn(&Server);

/// Ways to keep what a server holds over a restart: what it is started with, and what is done before.
fn ways_to_keep() -> [(&'static str, Builder, Keep); 4] {
    let save: Keep = |server| cmd!(server.connection(), "SAVE").okay();
    [
        ("rdb", Server::builder(), save),
        ("aof", append_only("no"), |_| {}),
        ("rewritten", append_only("yes"), rewrite_aof),
        ("rewritten without preamble", append_only("no"), rewrite_aof),
    ]
}

/// A server's state before something happened to it, and the tokens it had given by then.
struct Before {
    state: State,
    highest: i64,
}

impl Before {
    /// The state now, or a little later: with a few locks to compare.
    #[track_caller]
    fn of(server: &Server, traffic: &mut Traffic) -> Self {
        let is_lock = |stored: &&Stored| stored.lock.is_some();
        let locks = |state: &State| state.values().filter(is_lock).count();
        loop {
            let state = server.state();
            if locks(&state) >= 3 {
                let highest = traffic.highest();
                return Self { state, highest };
            }
            traffic.run(20);
        }
    }

    /// Demands that the server is as it was, and that its next token is a higher one.
    #[track_caller]
    fn is_kept_by(&self, server: &Server, what: &str) {
        assert_same(&self.state, &server.state(), what);
        assert!(server.last_token() >= self.highest, "{what}: the clock");
        assert!(server.next_token() > self.highest, "{what}: the next token");
    }
}
