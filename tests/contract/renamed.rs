//! Servers on which an operator has renamed or disabled commands (`rename-command`).

use std::time::Duration;
use testbed::{Builder, Expect, Server, cmd, eventually};

use crate::support::run;
use redis::Connection;

fn renamed(commands: &[(&str, &str)]) -> Builder {
    let mut builder = Server::builder();
    for (command, name) in commands {
        builder = builder.config("rename-command", &format!("{command} \"{name}\""));
    }
    builder
}

/// What is given back for a client that has gone would reach neither replicas nor the append-only file.
#[test]
fn a_server_without_del_is_refused_with_a_line_that_says_so() {
    for name in ["", "REMOVE"] {
        let log = renamed(&[("DEL", name)]).try_start().err();
        let log = log.unwrap_or_else(|| panic!("DEL as {name:?} was taken"));
        assert!(
            log.lines()
                .any(|line| line.contains("DEL is renamed or disabled")),
            "{log}"
        );
    }
}

#[test]
fn the_other_commands_may_be_renamed() {
    const OTHERS: [&str; 8] = [
        "PEXPIREAT",
        "PEXPIRE",
        "UNLINK",
        "RESTORE",
        "CONFIG",
        "CLUSTER",
        "EXPIRE",
        "COMMAND",
    ];
    for name in [
        |_: &str| String::new(),
        |command: &str| format!("MY{command}"),
    ] {
        let names = OTHERS.map(|command| (command, name(command)));
        let names: Vec<_> = names.iter().map(|(a, b)| (*a, b.as_str())).collect();
        let (server, mut c) = renamed(&names)
            .config("appendonly", "yes")
            .config("aof-use-rdb-preamble", "no")
            .started();
        run(&mut c, "PEXPIRE k 1").refused("ERR");
        after_an_expiry_the_next_one_is_served(&server, &mut c);
        run(&mut c, "LOCK.RELEASE k b").int();
        let token = run(&mut c, "LOCK.ACQUIRE k c PX 600000").grant().token;
        run(&mut c, "LOCK.RENEW k c").grant();
        cmd!(c, "LOCK.FENCE", "k", token).okay();
        // From a user it is taken only with the right to RESTORE, of which the server cannot tell.
        run(&mut c, "LOCK._APPLY k x 1 1 1 -1").refused("NOPERM");
        run(&mut c, "BGREWRITEAOF").value();
    }
}

fn after_an_expiry_the_next_one_is_served(server: &Server, c: &mut Connection) {
    run(c, "LOCK.ACQUIRE k a PX 300").grant();
    let mut waiter = server.connection();
    let limit = Some(Duration::from_secs(10));
    waiter.set_read_timeout(limit).expect("a time limit");
    let call = "LOCK.ACQUIRE k b PX 600000 BLOCK 0";
    assert_eq!(run(&mut waiter, call).grant().owner, b"b");
}

#[test]
fn a_server_without_a_command_that_tells_the_module_something_warns() {
    for command in ["CLIENT", "CLUSTER", "CONFIG"] {
        for cluster in ["yes", "no"] {
            let warns = cluster == "yes" || command == "CLIENT";
            let server = renamed(&[(command, "")])
                .config("cluster-enabled", cluster)
                .start();
            let line = format!("{command} is renamed or disabled");
            eventually(|| server.log().contains("Ready to accept"), "the server");
            assert_eq!(server.log().contains(&line), warns, "{}", server.log());
        }
    }
}
