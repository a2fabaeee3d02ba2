//! Runs the examples of a language as their users would, on a server of the test's own: those in Rust, or those that
//! `EXAMPLE` starts: a command in which `{}` stands for the job, and `{Job}` for the job as the name of a class. Each
//! language has some of the jobs; its `run.sh` names them.

#[path = "../common/postgres.rs"]
mod postgres;
mod program;

use std::collections::BTreeSet;

use postgres::Postgres;
use program::Program;
use testbed::{Expect, Server, cmd, eventually, waiters};

#[test]
fn stock() {
    let server = Server::start();
    let output = Program::start("stock", &server, None).succeeds();
    assert_eq!(output, ["10 bought, 10 too late"]);
    let mut connection = server.connection();
    assert_eq!(cmd!(connection, "GET", "stock").text(), "0");
    let buyers = cmd!(connection, "LRANGE", "sold", 0, -1).items();
    let different: BTreeSet<_> = buyers.into_iter().map(Expect::text).collect();
    assert_eq!(different.len(), 10, "each buyer has one: {different:?}");
}

#[test]
fn submit() {
    let server = Server::start();
    let mut output = Program::start("submit", &server, None).succeeds();
    assert_eq!(output.pop().as_deref(), Some("paid before"));
    output.sort();
    // On a slow machine the second request may come when the first has ended.
    assert!(
        output == ["in progress", "paid"] || output == ["paid", "paid before"],
        "{output:?}"
    );
    assert_eq!(cmd!(server.connection(), "GET", "payments").text(), "1");
}

#[test]
fn cron() {
    let server = Server::start();
    let machines = || [0, 1, 2].map(|_| Program::start("cron", &server, None));
    let mut connection = server.connection();
    for minute in 1..=2 {
        let ends = machines().map(Program::end);
        let done = ends
            .iter()
            .filter(|(output, _)| output.last().is_some_and(|line| line == "done"));
        let succeeded = ends.iter().filter(|(_, status)| status.success());
        assert_eq!((done.count(), succeeded.count()), (1, 1), "{ends:?}");
        assert_eq!(
            cmd!(connection, "GET", "reports").text(),
            minute.to_string()
        );
        let left_ms = cmd!(connection, "PTTL", "lock:report").int();
        assert!(
            left_ms > 0 && left_ms <= 60_000,
            "it stays for its time: {left_ms} ms"
        );
        // The minute is over.
        cmd!(connection, "DEL", "lock:report").int();
    }
}

#[test]
fn leader() {
    let server = Server::start();
    let token = |leader: &Program| {
        let line = leader.next().expect("a leader");
        let token = line.strip_prefix("leading, with token ");
        token
            .and_then(|token| token.parse::<u64>().ok())
            .unwrap_or_else(|| panic!("{line}"))
    };
    let waiting = || waiters(&mut server.connection(), "lock:leader").len();
    let expirations = || server.info_field("lock", "lock_expirations");
    let first = Program::start("leader", &server, None);
    let first_token = token(&first);
    let second = Program::start("leader", &server, None);
    eventually(|| waiting() == 1, "the second to wait");
    first.kill();
    let second_token = token(&second);
    assert!(second_token > first_token);
    assert_eq!(expirations(), "1", "the first could not release");

    let third = Program::start("leader", &server, None);
    eventually(|| waiting() == 1, "the third to wait");
    second.terminate();
    assert!(token(&third) > second_token);
    assert_eq!(expirations(), "1", "the second has released");
    second.end();
}

#[test]
fn semaphore() {
    let server = Server::start();
    let output = Program::start("semaphore", &server, None).succeeds();
    let [line] = &output[..] else {
        panic!("{output:?}")
    };
    let most = line.strip_prefix("10 exports, at most ");
    let most = most.and_then(|rest| rest.strip_suffix(" at a time"));
    assert!(matches!(most, Some("1" | "2" | "3")), "{line}");
}

#[test]
fn read_write() {
    let server = Server::start();
    let output = Program::start("read_write", &server, None).succeeds();
    assert_eq!(output, ["5 readers at a time", "the writer is alone"]);
}

#[test]
fn fenced() {
    let Some(database) = Postgres::find() else {
        println!("left out: PostgreSQL is not installed");
        return;
    };
    let server = Server::start();
    let output = Program::start("fenced", &server, Some(&database)).succeeds();
    let late = "slow: too late, a newer holder has claimed the seat";
    assert_eq!(output, ["slow: free", "quick: free", "quick: sold", late]);
}
