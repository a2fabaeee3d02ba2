//! Owners of any bytes share; nobody waits where nobody may. The words are shown in the core (`parse/tests.rs`).

use crate::holders::{enter, holders, owners, shared};
use crate::support::{at_once, run};
use testbed::{Expect, Server, cmd};

#[test]
fn owners_of_any_bytes_share() {
    let server = Server::start();
    let longest = vec![0xff; 256];
    let names: [&[u8]; 10] = [
        b"\0", b"a\0b", b"a\0", b"a", b"\xff", b"\r\n", b"%s%n", b" ", b"\"'\\", &longest,
    ];
    for mut c in [server.connection(), server.connection_resp3()] {
        // Few and many holders are kept differently.
        for more in [0, 30] {
            for name in names {
                let grant = cmd!(c, "LOCK.ACQUIRE", "k", name, "SHARED", "PX", 600_000).grant();
                assert_eq!(grant.owner, name);
            }
            for n in 0..more {
                enter(&mut c, &format!("more{n} SHARED"));
            }
            let told: Vec<_> = holders(&mut c)
                .into_iter()
                .map(|holder| holder.owner)
                .collect();
            assert_eq!(told[..names.len()], names);
            for name in names {
                assert_eq!(cmd!(c, "LOCK.RENEW", "k", name).grant().owner, name);
                cmd!(
                    c,
                    "LOCK.RELEASE",
                    "k",
                    [&b"\0\0"[..], &name[..name.len().min(9)]].concat()
                )
                .refused("NOTOWNER");
                assert_eq!(cmd!(c, "LOCK.RELEASE", "k", name).int(), 0);
            }
            run(&mut c, "DEL k").int();
        }
    }
}

#[test]
fn transactions_scripts_and_functions_do_as_calls_do_and_never_wait() {
    let (_server, mut c, _) = shared(["a"], "LIMIT 2");
    let lines = [
        "MULTI",
        "LOCK.ACQUIRE k b LIMIT 2 BLOCK 0",
        "LOCK.ACQUIRE k d LIMIT 2 BLOCK 0",
        "LOCK.RELEASE k a",
        "LOCK.ACQUIRE k d LIMIT 2 BLOCK 0",
        "LOCK.RENEW k d LIMIT 1",
        "LOCK.HOLDERS k",
        "EXEC",
    ];
    let exec = at_once(&mut c, &lines).pop().expect("EXEC").items();
    assert_eq!(exec[0].clone().grant().limit, Some(2));
    exec[1].clone().nil();
    assert_eq!(exec[3].clone().grant().limit, Some(2));
    exec[4].clone().refused("NOTALONE");
    assert_eq!(exec[5].clone().items().len(), 2);
    let script = "local call = redis.call
        local full = call('LOCK.ACQUIRE', KEYS[1], 'e', 'LIMIT', 2, 'BLOCK', 0)
        call('LOCK.RELEASE', KEYS[1], 'b')
        local grant = call('LOCK.ACQUIRE', KEYS[1], 'e', 'SHARED')
        local alone = redis.pcall('LOCK.ACQUIRE', KEYS[1], 'e')
        return {tostring(full), grant[5], alone.err, #call('LOCK.HOLDERS', KEYS[1])}";
    let reply = cmd!(c, "EVAL", script, 1, "k").items();
    assert_eq!(
        (reply[0].clone().text(), reply[1].clone().int()),
        ("false".to_owned(), 0)
    );
    assert!(reply[2].clone().text().starts_with("NOTALONE "));
    assert_eq!(reply[3].clone().int(), 2);
    let function = "#!lua name=f\nredis.register_function('share', function(keys)
        return #redis.call('LOCK.ACQUIRE', keys[1], 'f', 'SHARED', 'BLOCK', '0') end)";
    cmd!(c, "FUNCTION", "LOAD", function).text();
    run(&mut c, "LOCK.RELEASE k d").int();
    assert_eq!(cmd!(c, "FCALL", "share", 1, "k").int(), 5);
    assert_eq!(owners(&mut c), ["e", "f"]);
}
