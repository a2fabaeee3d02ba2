//! Which error is given where several could be.

use crate::support::Stage;
use testbed::{Expect, cmd};

#[test]
fn what_comes_before() {
    let mut stage = Stage::cycle();
    stage.hold(["both a SHARED", "both x SHARED"]);
    for (words, code) in [
        ("j a BLOCK -1", "ERR"),
        ("j a BLOCK 0 PX 0", "ERR"),
        ("j a BLOCK 0 SESSION 0", "ERR"),
        ("j * BLOCK 0 HOLDS 1", "ERR"),
        ("j a BLOCK 0 HOLDS 2", "NOTOWNER"),
        ("j a BLOCK 0 TOKEN 5", "NOTOWNER"),
        ("both a BLOCK 0", "NOTALONE"),
    ] {
        stage.run(&format!("LOCK.ACQUIRE {words}")).refused(code);
    }
    stage.run("SET other x").okay();
    stage
        .run("LOCK.ACQUIRE other a BLOCK 0")
        .refused("WRONGTYPE");
    for setting in ["lock.max-waiters", "lock.max-waiters-total"] {
        cmd!(stage.c, "CONFIG", "SET", setting, 0).okay();
        stage.run("LOCK.ACQUIRE j a BLOCK 0").refused("MAXWAITERS");
        cmd!(stage.c, "CONFIG", "SET", setting, 5).okay();
    }
    assert_eq!(stage.count(), 0);
    stage.told("j a", 2);
    stage.told("j a HOLDS 1", 2);
    // A waiter for whom there is no room is told that.
    cmd!(stage.c, "CONFIG", "SET", "lock.max-waiters-total", 1).okay();
    stage.run("LOCK.ACQUIRE j a BLOCK 0").refused("MAXWAITERS");
    assert_eq!(stage.count(), 2);
}

/// A lease that is too short for a session shows when the grant is judged.
#[test]
fn what_comes_after() {
    let mut stage = Stage::cycle();
    cmd!(stage.c, "CONFIG", "SET", "lock.default-lease-ms", 500).okay();
    let session = cmd!(stage.server.connection(), "LOCK.SESSION", "OPEN").int();
    stage
        .run(&format!("LOCK.ACQUIRE free a BLOCK 0 SESSION {session}"))
        .refused("ERR");
    let reply = stage.run(&format!("LOCK.ACQUIRE j a BLOCK 0 SESSION {session}"));
    reply.refused("DEADLOCK");
}
