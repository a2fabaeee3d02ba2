//! Storing what is to be kept.

use super::content::{begin, described, go_on};
use super::*;
use std::io::Write;
use testbed::Builder;

#[test]
#[ignore = "writes into the source folder: once for each version of the module, and each server"]
fn keep_what_this_version_stores() {
    let version = root().join(env!("CARGO_PKG_VERSION"));
    let folder = version.join(name_of_this_server());
    fs::create_dir_all(&folder).expect("a folder");
    let write = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).expect("a file");

    let server = Server::start();
    begin(&mut server.connection());
    go_on(&mut server.connection());
    cmd!(server.connection(), "SAVE").okay();
    write(DUMP, &read(&server.dir().join(DUMP)));
    write(PAYLOADS, &payloads(&server));

    let locks = described(&server);
    let told = version.join(LOCKS);
    if told.exists() {
        assert_eq!(read(&told), locks.as_bytes(), "what other servers stored");
    }
    fs::write(told, &locks).expect("a file");

    for (name, preamble, is_rewritten) in APPEND_ONLY {
        let mut server = append_only(preamble).start();
        begin(&mut server.connection());
        if is_rewritten {
            rewrite_aof(&server);
        }
        go_on(&mut server.connection());
        assert_eq!(described(&server), locks, "{name}");
        server.stop();
        fs::create_dir_all(folder.join(name)).expect("a folder");
        for path in paths_in(&server.dir().join("appendonlydir")) {
            let file = path.file_name().and_then(|name| name.to_str());
            write(&format!("{name}/{}", file.expect("a name")), &read(&path));
        }
    }

    let server = Builder::default()
        .config("repl-ping-replica-period", "3600")
        .start();
    begin(&mut server.connection());
    let mut replica = link::Replica::of(&server);
    go_on(&mut server.connection());
    assert_eq!(described(&server), locks, "the primary");
    let (start, stream) = replica.received(&server);
    write(STREAM_START, &start);
    write(STREAM, &stream);
}

/// Commands that restore all locks, as they stand in an append-only file.
fn payloads(server: &Server) -> Vec<u8> {
    let mut c = server.connection();
    let mut file = Vec::new();
    let mut append = |command: &redis::Cmd| {
        let packed = command.get_packed_command();
        file.write_all(&packed).expect("memory");
    };
    for ((database, key), stored) in server.whole_state() {
        cmd!(c, "SELECT", database).okay();
        let payload = cmd!(c, "DUMP", key).bytes();
        append(redis::cmd("SELECT").arg(database));
        let deadline = stored.deadline.max(0);
        append(
            redis::cmd("RESTORE")
                .arg(key)
                .arg(deadline)
                .arg(payload)
                .arg("ABSTTL"),
        );
    }
    file
}
