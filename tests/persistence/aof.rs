//! Restarts by the append-only file, and what stands in it.

use crate::*;
use std::collections::BTreeMap;
use testbed::aof::Command;

#[test]
fn a_restart_by_aof_keeps_every_lock_and_the_clock() {
    for preamble in PREAMBLES {
        let mut server = append_only(preamble).start();
        let mut traffic = Traffic::on(&server);
        for rewritten in [false, true, false] {
            traffic.run(500);
            if rewritten {
                rewrite_aof(&server);
                traffic.run(100);
            }
            let before = Before::of(&server, &mut traffic);
            server.restart();
            let what = format!("preamble {preamble}, rewritten {rewritten}");
            before.is_kept_by(&server, &what);
            traffic.move_to(&server);
        }
    }
}

#[test]
fn a_rewritten_file_alone_keeps_every_lock() {
    for preamble in PREAMBLES {
        let mut server = append_only(preamble).start();
        let mut traffic = Traffic::on(&server);
        traffic.run(700);
        let before = Before::of(&server, &mut traffic);
        rewrite_aof(&server);
        server.restart();
        before.is_kept_by(&server, &format!("preamble {preamble}"));
    }
}

/// The file's commands, without those that only name the database; effects as what they say.
fn written(server: &Server) -> Vec<Vec<String>> {
    let commands = server.aof();
    let commands = commands.iter().map(told);
    commands.filter(|words| words[0] != "SELECT").collect()
}

fn told(command: &Command) -> Vec<String> {
    let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
    let [name, key, effect] = &command[..] else {
        return command.iter().map(text).collect();
    };
    if !name.eq_ignore_ascii_case(b"lock._apply") {
        return command.iter().map(text).collect();
    }
    let said = testbed::effect::read(effect).expect("a lock of limit 1");
    let numbers = [said.token, said.holds, said.lease_ms, said.deadline];
    let words = [text(name), text(key), text(&said.owner)];
    let numbers = numbers.iter().map(ToString::to_string);
    words.into_iter().chain(numbers).collect()
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn each_change_is_written_as_the_state_it_led_to() {
    let (server, mut c) = append_only("yes").started();
    let mut expected = Vec::new();

    let random = cmd!(c, "LOCK.ACQUIRE", "a", "*", "EX", 60).grant();
    let owner = String::from_utf8(random.owner).expect("a UUID");
    let end = |c: &mut redis::Connection, key: &str| cmd!(*c, "PEXPIRETIME", key).int();
    let at = end(&mut c, "a");
    let token = random.token;
    expected.push(format!("lock._apply a {owner} {token} 1 60000 {at}"));

    cmd!(c, "LOCK.RELEASE", "a", &owner).int();
    expected.push(format!("LOCK.RELEASE a {owner}"));

    let grant = cmd!(c, "LOCK.ACQUIRE", "b", "o", "PX", 70_000).grant();
    let (token, at) = (grant.token, end(&mut c, "b"));
    expected.push(format!("lock._apply b o {token} 1 70000 {at}"));
    cmd!(c, "LOCK.ACQUIRE", "b", "o", "PX", 80_000).grant();
    let at = end(&mut c, "b");
    expected.push(format!("lock._apply b o {token} 2 80000 {at}"));
    let raised = grant.token + 1000;
    let raise = format!("PX 9000000 TOKEN {} RAISE {raised}", grant.token);
    testbed::run(&mut c, &format!("LOCK.RENEW b o {raise}")).grant();
    let at = end(&mut c, "b");
    expected.push(format!("lock._apply b o {raised} 2 9000000 {at}"));
    cmd!(c, "PERSIST", "b").int();
    expected.push("PERSIST b".to_owned());
    cmd!(c, "LOCK.RELEASE", "b", "o").int();
    expected.push(format!("lock._apply b o {raised} 1 9000000 -1"));
    cmd!(c, "LOCK.RELEASE", "b", "o", "ALL").int();
    expected.push("LOCK.RELEASE b o ALL".to_owned());

    let expected: Vec<_> = expected.iter().map(|line| words(line)).collect();
    assert_eq!(written(&server), expected);
}

#[test]
fn a_transaction_and_a_script_are_written_as_one_block_of_effects() {
    let (server, mut c) = append_only("yes").started();

    let lines = [
        "LOCK.ACQUIRE a o PX 60000",
        "LOCK.ACQUIRE a another",
        "LOCK.RELEASE a o",
    ];
    let replies = testbed::transaction(&mut c, &lines);
    let in_transaction = replies[0].clone().grant().token;

    let script = "
        local grant = redis.call('LOCK.ACQUIRE', KEYS[1], '*')
        redis.pcall('LOCK.RENEW', KEYS[1], 'another')
        redis.call('LOCK.RELEASE', KEYS[1], grant[2])
        return grant";
    let in_script = cmd!(c, "EVAL", script, 1, "b").grant();
    let owner = String::from_utf8(in_script.owner).expect("a UUID");

    let written = written(&server);
    let start = |words: &Vec<String>| words[..words.len().min(5)].join(" ");
    let starts: Vec<_> = written.iter().map(start).collect();
    let expected = [
        "MULTI",
        &format!("lock._apply a o {in_transaction} 1"),
        "LOCK.RELEASE a o",
        "EXEC",
        "MULTI",
        &format!("lock._apply b {owner} {} 1", in_script.token),
        &format!("LOCK.RELEASE b {owner}"),
        "EXEC",
    ];
    assert_eq!(starts, expected);
}

#[test]
fn whatever_is_sent_the_file_holds_effects_alone() {
    for preamble in PREAMBLES {
        let server = append_only(preamble).start();
        let mut traffic = Traffic::on(&server);
        traffic.run(800);
        check_effects(&server.aof());
        rewrite_aof(&server);
        traffic.run(800);
        check_effects(&server.aof());
        assert!(traffic.grants() > 200, "{} grants", traffic.grants());
    }
}

#[track_caller]
fn check_effects(commands: &[Command]) {
    let mut counts = BTreeMap::new();
    for command in commands {
        let name = String::from_utf8_lossy(&command[0]).to_ascii_lowercase();
        let clue = || -> Vec<_> {
            let words = command.iter();
            words.map(|word| word.escape_ascii().to_string()).collect()
        };
        match name.as_str() {
            "lock._apply" => assert_eq!(command.len(), 3, "{:?}", clue()),
            // As it was given: whatever it says, the lock is free.
            "lock.release" => {}
            "lock._clock" => assert_eq!(command.len(), 2, "{:?}", clue()),
            name => assert!(!name.starts_with("lock."), "{:?}", clue()),
        }
        let relative = ["pexpire", "expire", "psetex", "setex", "eval"];
        assert!(!relative.contains(&name.as_str()), "{:?}", clue());
        let asks = command[1..]
            .iter()
            .any(|word| word == b"*" || word == b"PX");
        assert!(!asks, "{:?}", clue());
        *counts.entry(name).or_insert(0) += 1;
    }
    assert!(counts["lock._apply"] > 10, "{counts:?}");
}
