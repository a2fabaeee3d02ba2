//! What a replica without the module does.

use crate::*;
use testbed::module;

#[test]
fn a_replica_without_the_module_cannot_load_the_data() {
    let primary = primary().start();
    cmd!(primary.connection(), "LOCK.ACQUIRE", "k", "o").grant();
    let mut plain = Server::builder().without_module().start();
    follow(&plain, Some(&primary));
    eventually(
        || {
            plain
                .log()
                .contains("data I can't load: no matching module")
        },
        "a refusal in the log",
    );
    // It does not go on without the locks.
    plain.wait_for_exit();
}

#[test]
fn a_replica_without_the_module_falls_apart_from_its_primary() {
    let server = || Server::builder().without_module();
    let primary = server().config("enable-module-command", "yes").start();
    let plain = primary.replica_with(|_| {
        let primary = format!("127.0.0.1 {}", primary.port());
        server().config("replicaof", &primary)
    });
    let mut c = primary.connection();
    cmd!(c, "MODULE", "LOAD", module::path().to_str()).okay();
    cmd!(c, "LOCK.ACQUIRE", "k", "o").grant();
    cmd!(c, "SET", "other", "v").okay();
    primary.wait_for_sync(&plain);
    let mut there = plain.connection();
    assert_eq!(cmd!(there, "GET", "other").text(), "v");
    assert_eq!(cmd!(there, "EXISTS", "k").int(), 0);
    let log = plain.log();
    assert!(log.contains("unknown command 'lock._apply'"), "{log}");
}
