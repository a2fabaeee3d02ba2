//! Which calls may keep a grant.

use crate::support::{Keeper, at_once, count, kept_by, run};
use testbed::{Expect, Server, Talk, cmd, line};

#[test]
fn the_silence_is_a_second_to_ten_years() {
    let server = Server::start();
    let mut c = server.connection();
    for ms in ["1000", "315360000000"] {
        run(&mut c, &format!("LOCK.ACQUIRE k a KEEP {ms}")).grant();
        run(&mut c, &format!("LOCK.RENEW k a KEEP {ms}")).grant();
        assert_eq!(kept_by(&mut c)[0].1, ms.parse::<i64>().expect("a number"));
    }
    run(&mut c, "LOCK.RELEASE k a ALL").int();
    for ms in [
        "999",
        "1",
        "-1",
        "315360000001",
        "x",
        "1.5",
        "",
        "99999999999999999999",
    ] {
        for command in ["LOCK.ACQUIRE", "LOCK.RENEW"] {
            let text = cmd!(c, command, "k", "a", "KEEP", ms).refused("ERR");
            assert!(text.contains("KEEP"), "{text}");
        }
    }
    for words in [
        "LOCK.ACQUIRE k a KEEP",
        "LOCK.ACQUIRE k a KEEP 1000 KEEP 1000",
        "LOCK.RENEW k a KEEP 0 KEEP 0",
        "LOCK.RELEASE k a KEEP 1000",
    ] {
        run(&mut c, words).refused("ERR");
    }
    assert_eq!(run(&mut c, "EXISTS k").int(), 0);
}

#[test]
fn keywords_are_in_any_order_and_case() {
    let server = Server::start();
    let mut keeper = Keeper::of(server.connection());
    for (number, words) in [
        "KEEP 2000 PX 5000 BLOCK 10 HOLDS 1",
        "hOLDS 1 keep 2000 ex 5",
        "shared Keep 2000 px 5000",
        "PX 5000 LIMIT 3 KEEP 2000",
    ]
    .into_iter()
    .enumerate()
    {
        let granted = keeper.acquire(&format!("k{number} a {words}"));
        assert_eq!(granted.lease, 5000);
    }
    assert_eq!(count(&server, "kept"), 4);
    // An owner of the server's own making.
    let owner = keeper.acquire("random * KEEP 5000").owner;
    assert_eq!(owner.len(), 36);
    assert_eq!(count(&server, "kept"), 5);
}

/// `k` is held by `a` with a short lease, `long` with a long one and kept, `default` with none given.
fn prepared() -> (Server, Keeper) {
    let server = Server::start();
    let mut keeper = Keeper::of(server.connection());
    keeper.acquire("short a PX 999 HOLDS 1");
    run(&mut keeper, "PERSIST short").int();
    keeper.acquire("long a PX 60000 KEEP 60000");
    (server, keeper)
}

#[test]
fn a_kept_lease_is_a_second_or_more() {
    let (server, mut c) = prepared();
    let id = c.id;
    for words in [
        // Given with KEEP.
        "LOCK.ACQUIRE free a PX 999 KEEP 1000",
        "LOCK.ACQUIRE free a PX 1 KEEP 60000",
        "LOCK.RENEW long a PX 999 KEEP 1000",
        // Not given, and remembered.
        "LOCK.ACQUIRE short a KEEP 1000",
        "LOCK.RENEW short a KEEP 1000",
        // Of a kept grant.
        "LOCK.RENEW long a PX 999",
        "LOCK.RENEW long a PX 1",
    ] {
        let text = run(&mut c, words).refused("ERR");
        assert!(text.contains("1000"), "{words}: {text}");
    }
    run(&mut c, "CONFIG SET lock.default-lease-ms 500").okay();
    run(&mut c, "LOCK.ACQUIRE free a KEEP 1000").refused("ERR");
    assert_eq!(run(&mut c, "EXISTS free").int(), 0);
    assert_eq!(run(&mut c, "LOCK.INFO short").lock_info().holds, 1);
    let info = run(&mut c, "LOCK.INFO long").lock_info();
    assert_eq!((info.lease_ms, info.holds), (60_000, 1));
    assert_eq!(count(&server, "kept"), 1);
    // One that lengthens it may.
    run(&mut c, "LOCK.ACQUIRE short a PX 1000 KEEP 1000").grant();
    // A shorter one never shortens in a re-entry.
    run(&mut c, "LOCK.ACQUIRE long a PX 1").grant();
    // KEEP 0 may shorten it.
    assert_eq!(
        run(&mut c, "LOCK.RENEW long a PX 500 KEEP 0").grant().lease,
        500
    );
    assert_eq!(count(&server, "kept"), 1);
    assert_eq!(run(&mut c, "CLIENT ID").int(), id);
}

/// What depends on the lock's state comes last.
#[test]
fn other_errors_come_first() {
    let (_server, mut c) = prepared();
    run(&mut c, "SET string v").okay();
    for (words, code) in [
        ("LOCK.ACQUIRE string a KEEP 1000", "WRONGTYPE"),
        ("LOCK.RENEW string a KEEP 1000", "WRONGTYPE"),
        // An error of the arguments comes before those.
        ("LOCK.ACQUIRE string a KEEP 1000 PX 999", "ERR"),
        ("LOCK.RENEW free a KEEP 1000 PX 999", "ERR"),
        ("LOCK.RENEW free a KEEP 999", "ERR"),
        ("LOCK.RENEW free a KEEP 1000", "NOTHELD"),
        ("LOCK.RENEW short b KEEP 1000", "NOTOWNER"),
        ("LOCK.RENEW short a TOKEN 7 KEEP 1000", "FENCED"),
        ("LOCK.ACQUIRE short a TOKEN 7 KEEP 1000", "FENCED"),
        ("LOCK.ACQUIRE short a HOLDS 3 KEEP 1000", "NOTHELD"),
        ("LOCK.RENEW long a PX 999 TOKEN 7", "FENCED"),
        ("LOCK.RENEW long b PX 999", "NOTOWNER"),
        ("LOCK.RENEW short a KEEP 1000", "ERR"),
    ] {
        run(&mut c, words).refused(code);
    }
    // NOTALONE, and AHEAD.
    run(&mut c, "PERSIST short").reply().ok();
    let lines = [
        "LOCK.ACQUIRE shared a SHARED PX 999",
        "LOCK.ACQUIRE shared b SHARED PX 60000",
        "LOCK.ACQUIRE shared a KEEP 1000",
    ];
    let mut last = at_once(&mut c, &lines);
    last.pop().expect("a reply").refused("NOTALONE");
    let token = run(&mut c, "LOCK.FENCE short").int();
    let far = token + 3_600_000_000;
    cmd!(
        *c,
        "LOCK.RENEW",
        "short",
        "a",
        "TOKEN",
        token,
        "RAISE",
        far,
        "KEEP",
        1000
    )
    .refused("AHEAD");
    run(&mut c, "LOCK.ACQUIRE short b KEEP 1000").nil();
}

/// Where a token is raised by a call that is refused, the server's clock of tokens stays.
#[test]
fn a_refused_call_lifts_no_token() {
    let (server, mut c) = prepared();
    // Further ahead than a busy machine is late.
    run(&mut c, "CONFIG SET lock.max-token-lead-ms 86400000").okay();
    let token = run(&mut c, "LOCK.FENCE short").int();
    let last = server.last_token();
    cmd!(
        *c,
        "LOCK.RENEW",
        "short",
        "a",
        "TOKEN",
        token,
        "RAISE",
        last + 600_000_000,
        "KEEP",
        1000
    )
    .refused("ERR");
    assert_eq!(server.last_token(), last);
    run(&mut c, "LOCK.ACQUIRE new a PX 500").grant();
    run(&mut c, "LOCK.ACQUIRE free a KEEP 1000 PX 500").refused("ERR");
    assert!(server.last_token() < last + 600_000_000);
}

/// A waiting call is judged when its turn comes.
#[test]
fn a_waiting_call_is_judged_when_its_turn_comes() {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k b PX 60000").grant();
    run(&mut c, "CONFIG SET lock.default-lease-ms 500").okay();
    let mut keeper = Keeper::of(server.connection());
    keeper.post(&line("LOCK.ACQUIRE k a BLOCK 0 KEEP 1000"));
    let mut next = server.connection();
    testbed::eventually(|| testbed::waiters(&mut c, "k") == ["a"], "it to wait");
    next.post(&line("LOCK.ACQUIRE k next PX 60000 BLOCK 0"));
    testbed::eventually(|| testbed::waiters(&mut c, "k").len() == 2, "it to wait");
    run(&mut c, "LOCK.RELEASE k b").int();
    keeper.receive().refused("ERR");
    next.receive().grant();
    keeper.is_answered();
    assert_eq!(count(&server, "kept"), 0);
}

#[test]
fn scripts_and_functions_have_no_connection_to_keep() {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE held a PX 60000").grant();
    for call in [
        "'LOCK.ACQUIRE', 'k', 'a', 'KEEP', '1000'",
        "'LOCK.ACQUIRE', 'k', 'a', 'KEEP', '0'",
        "'LOCK.RENEW', 'held', 'a', 'KEEP', '1000'",
        "'LOCK.RENEW', 'held', 'a', 'KEEP', '0'",
    ] {
        let script = format!("return redis.call({call})");
        let text = cmd!(c, "EVAL", script, 2, "k", "held").refused("ERR");
        assert!(text.contains("KEEP"), "{text}");
        let library = format!(
            "#!lua name=keeping\nredis.register_function('keep', function(keys) return redis.call({call}) end)"
        );
        cmd!(c, "FUNCTION", "LOAD", "REPLACE", library).text();
        let text = cmd!(c, "FCALL", "keep", 2, "k", "held").refused("ERR");
        assert!(text.contains("KEEP"), "{text}");
    }
    assert_eq!(run(&mut c, "EXISTS k").int(), 0);
    assert_eq!(count(&server, "kept"), 0);
    // In a transaction that runs a script too.
    run(&mut c, "MULTI").okay();
    cmd!(
        c,
        "EVAL",
        "return redis.call('LOCK.ACQUIRE', KEYS[1], 'a', 'KEEP', '1000')",
        1,
        "k"
    )
    .text();
    let replies = run(&mut c, "EXEC").items();
    replies[0].clone().refused("ERR");
}

#[test]
fn in_a_transaction_it_works() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::of(server.connection());
    run(&mut keeper, "MULTI").okay();
    for words in [
        "LOCK.ACQUIRE k a PX 1000 KEEP 60000",
        "LOCK.ACQUIRE j a PX 1000",
        "LOCK.RENEW j a KEEP 5000",
        "LOCK.ACQUIRE gone a PX 1000 KEEP 60000",
        "LOCK.RELEASE gone a",
    ] {
        assert_eq!(run(&mut keeper, words).text(), "QUEUED");
    }
    run(&mut keeper, "EXEC").items();
    assert_eq!(kept_by(&mut c), [(keeper.id, 60_000)]);
    crate::support::await_renewals(&server, 4);
    assert_eq!(count(&server, "kept"), 2);
    run(&mut c, "DEL j").int();
    keeper.is_closed();
}

#[test]
fn without_the_command_client_nothing_is_kept() {
    for name in ["", "MYCLIENT"] {
        let server = Server::builder()
            .config("rename-command", &format!("CLIENT \"{name}\""))
            .start();
        let mut c = server.connection();
        let text = run(&mut c, "LOCK.ACQUIRE k a KEEP 1000").refused("ERR");
        assert!(text.contains("CLIENT"), "{text}");
        run(&mut c, "LOCK.ACQUIRE k a PX 60000").grant();
        run(&mut c, "LOCK.RENEW k a KEEP 1000").refused("ERR");
        run(&mut c, "LOCK.RENEW k a KEEP 0").refused("ERR");
        run(&mut c, "LOCK.ACQUIRE k a KEEP 0").refused("ERR");
        assert_eq!(run(&mut c, "LOCK.INFO k").lock_info().holds, 1);
    }
}

/// A lock that is kept is looked at every few milliseconds, and each look takes as long as its name is.
#[test]
fn a_lock_with_a_very_long_name_is_not_kept() {
    const LONGEST: usize = 8192;
    let server = Server::start();
    let mut c = server.connection();
    let (longest, longer) = ("k".repeat(LONGEST), "k".repeat(LONGEST + 1));
    run(&mut c, &format!("LOCK.ACQUIRE {longest} a KEEP 600000")).grant();
    run(&mut c, &format!("LOCK.RENEW {longest} a KEEP 600000")).grant();
    for words in ["LOCK.ACQUIRE", "LOCK.ACQUIRE", "LOCK.RENEW"] {
        let text = run(&mut c, &format!("{words} {longer} a KEEP 600000")).refused("ERR");
        assert!(text.contains("8192 bytes"), "{text}");
        run(&mut c, &format!("LOCK.ACQUIRE {longer} a HOLDS 1 KEEP 0")).grant();
    }
    run(&mut c, &format!("LOCK.RENEW {longer} a KEEP 0")).grant();
    assert_eq!(count(&server, "kept"), 1);
}
