//! The neighbour, and servers that load it.

use redis::Connection;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use testbed::{Builder, Expect, Server, module, run};

/// The neighbour's library, compiled once for each test program.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = module::root().join("tests/neighbours/neighbour.c");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        // Several test programs may be at it at once: each renames a file of its own.
        let made = folder.join(format!("neighbour.{}", std::process::id()));
        let compiled = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
            .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-g"])
            .args(["-shared", "-fPIC", "-pthread", "-o"])
            .args([&made, &source])
            .status()
            .expect("a C compiler starts");
        assert!(compiled.success(), "the neighbour does not compile");
        let library = folder.join("neighbour.so");
        fs::rename(&made, &library).expect("the library is put in its place");
        library
    })
}

/// A server that has loaded the neighbour, which also owns these commands.
pub(crate) fn beside(commands: &str) -> Builder {
    let words = format!("\"{}\" {commands}", library().display());
    Server::builder().config("loadmodule", &words)
}

/// A server with both modules.
#[track_caller]
pub(crate) fn start() -> (Server, Connection) {
    beside("").started()
}

/// The same, where `a` holds `k`.
#[track_caller]
pub(crate) fn held() -> (Server, Connection) {
    beside("").held()
}

/// Demands that the server is well.
#[track_caller]
pub(crate) fn is_well(server: &Server) {
    let mut c = server.connection();
    run(&mut c, "PING").text();
    assert_eq!(server.signs_of_a_crash(), [""; 0]);
}
