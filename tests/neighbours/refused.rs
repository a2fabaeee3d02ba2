//! A load that the server refuses leaves nothing behind.

use crate::support::{beside, is_well};
use testbed::{Expect, Server, cmd, eventually, module, run};

/// A server whose other module owns a command of that name, and which may load modules later.
fn taken(command: &str) -> Server {
    beside(command)
        .without_module()
        .config("enable-module-command", "yes")
        .start()
}

fn load(server: &Server) -> testbed::Reply {
    let mut c = server.connection();
    cmd!(c, "MODULE", "LOAD", module::path().display().to_string())
}

/// Everything that the server tells modules of.
fn stir(server: &Server) {
    let mut c = server.connection();
    run(&mut c, "SET k v PX 1").okay();
    run(&mut c, "CONFIG SET maxmemory-policy allkeys-lru").okay();
    run(&mut c, "SWAPDB 0 1").okay();
    run(&mut c, "SAVE").okay();
    run(&mut c, "BGSAVE").text();
    run(&mut c, "FLUSHDB").okay();
    run(&mut c, "FLUSHALL ASYNC").okay();
    run(&mut c, "REPLICAOF 127.0.0.1 1").okay();
    run(&mut c, "REPLICAOF NO ONE").okay();
    run(&mut c, "INFO everything").text();
    drop(server.connection());
    let connections = || server.info_field("stats", "total_connections_received");
    let before = connections();
    eventually(|| connections() != before, "the server to go on");
    let saving = || server.info_field("persistence", "rdb_bgsave_in_progress");
    eventually(|| saving() == "0", "the child to end");
}

#[test]
fn the_server_goes_on_when_another_module_owns_a_command_of_ours() {
    // The first and the last to be registered, so that nothing and nearly everything is there already.
    for command in ["lock.acquire", "lock._clock"] {
        let server = taken(command);
        for _ in 0..3 {
            load(&server).refused("ERR");
            stir(&server);
        }
        let mut c = server.connection();
        assert_eq!(cmd!(c, command).okay(), ());
        let modules = format!("{:?}", run(&mut c, "MODULE LIST").items());
        assert!(!modules.contains("\"lock\""), "{modules}");
        assert_eq!(run(&mut c, "CONFIG GET lock.*").items(), []);
        run(&mut c, "LOCK.INFO k").refused("ERR");
        is_well(&server);
    }
}

#[test]
fn a_load_that_is_refused_for_its_arguments_leaves_nothing_behind() {
    let server = taken("");
    let mut c = server.connection();
    let path = module::path().display().to_string();
    for _ in 0..3 {
        cmd!(c, "MODULE", "LOAD", path, "word").refused("ERR");
        stir(&server);
    }
    // And once it is asked properly it is there, whole.
    load(&server).okay();
    stir(&server);
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    run(&mut c, "FLUSHALL").okay();
    let removals = || server.count("forced_removals");
    eventually(|| removals() == 1, "the flushed lock to be counted once");
    is_well(&server);
}
