//! A server without the module, and what has locks in it.

use crate::*;
use testbed::{Kind, started};

#[test]
fn the_token_clock_alone_in_an_rdb_file_needs_the_module() {
    let (mut server, mut c) = started();
    cmd!(c, "LOCK.ACQUIRE", "k", "o").grant();
    cmd!(c, "LOCK.RELEASE", "k", "o").int();
    cmd!(c, "SAVE").okay();
    let log = server
        .reconfigure(Builder::without_module)
        .try_restart()
        .expect_err("a refusal");
    assert!(log.contains("AUX module data I can't load"), "{log}");
}

#[test]
fn an_rdb_file_from_before_the_first_lock_needs_no_module_where_the_server_can_do_that() {
    let mut server = Server::start();
    cmd!(server.connection(), "SET", "other", "v").okay();
    cmd!(server.connection(), "SAVE").okay();
    let plain = server.reconfigure(Builder::without_module).try_restart();
    let version = Server::version();
    if version.kind == Kind::Valkey || version.is_redis_from(7, 2) {
        plain.expect("a start");
        assert_eq!(cmd!(server.connection(), "GET", "other").text(), "v");
        server.reconfigure(Builder::with_module).restart();
        assert!(server.next_token() > 0);
    } else {
        let log = plain.expect_err("a refusal");
        assert!(log.contains("AUX module data I can't load"), "{log}");
    }
}

#[test]
fn effects_in_an_append_only_file_need_the_module() {
    let (mut server, mut c) = append_only("no").started();
    cmd!(c, "SET", "other", "v").okay();
    cmd!(c, "LOCK.ACQUIRE", "k", "o").grant();
    cmd!(c, "LOCK.RELEASE", "k", "o").int();
    // Also where no lock is held any more, and after a rewrite, which writes the token clock.
    for rewritten in [false, true] {
        if rewritten {
            rewrite_aof(&server);
        }
        let log = server
            .reconfigure(Builder::without_module)
            .try_restart()
            .expect_err("a refusal");
        let command = if rewritten {
            "lock._clock"
        } else {
            "lock._apply"
        };
        let reason = format!("nknown command '{command}'");
        let has_reason = log.contains(&reason) && log.contains("reading the append only file");
        assert!(has_reason, "{log}");
        server.reconfigure(Builder::with_module).restart();
        assert_eq!(cmd!(server.connection(), "GET", "other").text(), "v");
    }
}
