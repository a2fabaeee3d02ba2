//! The program: `testbed cluster` and `testbed sentinel` as `make` starts them, and `testbed serve` as tests
//! in other languages do.

use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use testbed::{Expect, cmd, eventually, redis};

/// The processes that this one has started, with their folders.
fn children(pid: u32) -> Vec<(PathBuf, PathBuf)> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let list = list.expect("the children of a process");
    let process = |child: &str| {
        let process = Path::new("/proc").join(child);
        let folder = fs::read_link(process.join("cwd")).expect("a folder");
        (process, folder)
    };
    list.split_whitespace().map(process).collect()
}

#[track_caller]
fn are_gone(children: Vec<(PathBuf, PathBuf)>) {
    for (process, folder) in children {
        assert!(
            !process.exists() && !folder.exists(),
            "{}",
            folder.display()
        );
    }
}

fn send_signal(process: &Child, name: &str) {
    let sent = Command::new("kill")
        .args(["-s", name, &process.id().to_string()])
        .status();
    assert!(sent.expect("kill starts").success());
}

fn testbed(what: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    command.arg(what).stdout(Stdio::piped());
    command
}

/// `testbed serve`, and the ends of its pipes.
struct Serve {
    process: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Serve {
    fn start() -> Self {
        let mut process = testbed("serve")
            .stdin(Stdio::piped())
            .spawn()
            .expect("testbed");
        Self {
            orders: process.stdin.take(),
            answers: BufReader::new(process.stdout.take().expect("its output")),
            process,
        }
    }

    /// Gives an order and its answer.
    fn answer(&mut self, order: &Value) -> Value {
        let orders = self.orders.as_mut().expect("its input");
        writeln!(orders, "{order}").expect("an open pipe");
        next_answer(&mut self.answers)
    }

    /// Gives an order that must be carried out.
    #[track_caller]
    fn order(&mut self, order: &Value) -> Value {
        let answer = self.answer(order);
        assert_eq!(answer.get("error"), None, "{order}");
        answer
    }

    /// Starts something that has one port.
    #[track_caller]
    fn start_at_port(&mut self, order: &Value) -> u16 {
        port(&self.order(order))
    }

    fn close(mut self) {
        drop(self.orders.take());
        assert!(self.process.wait().expect("its end").success());
    }
}

fn next_answer(answers: &mut impl BufRead) -> Value {
    let mut answer = String::new();
    answers.read_line(&mut answer).expect("an answer");
    serde_json::from_str(&answer).expect("JSON")
}

fn port(server: &Value) -> u16 {
    let port = server["port"].as_u64().expect("a port");
    port.try_into().expect("a port")
}

fn connect(port: u16) -> redis::RedisResult<redis::Connection> {
    redis::Client::open(("127.0.0.1", port))?.get_connection()
}

fn talks(port: u16) -> bool {
    let pinged = connect(port).and_then(|mut c| redis::cmd("PING").query::<String>(&mut c));
    pinged.is_ok()
}

#[test]
fn by_hand_it_leaves_no_process_and_no_folder_behind() {
    for (what, signal) in [("cluster", "INT"), ("sentinel", "TERM")] {
        let mut playground = testbed(what).spawn().expect("testbed");
        let out = BufReader::new(playground.stdout.take().expect("its output"));
        let mut lines = out.lines().map(|line| line.expect("text"));
        assert!(
            lines.any(|line| line.starts_with("Ctrl-C stops")),
            "{what} comes up"
        );
        let children = children(playground.id());
        assert_eq!(children.len(), 6, "{what}");
        send_signal(&playground, signal);
        assert!(playground.wait().expect("its end").success(), "{what}");
        are_gone(children);
    }
}

#[test]
fn a_server_is_killed_stopped_paused_and_started_again() {
    let mut serve = Serve::start();
    let config = json!({ "maxmemory": "123mb", "appendonly": "yes" });
    let server = serve.start_at_port(&json!({ "do": "server", "config": config }));
    let mut c = connect(server).expect("a connection");
    let memory = cmd!(c, "CONFIG", "GET", "maxmemory").items().remove(1);
    assert_eq!(memory.text(), (123 << 20).to_string());
    cmd!(c, "LOCK.ACQUIRE", "k", "a").grant();
    for how in ["kill", "stop"] {
        serve.order(&json!({ "do": how, "port": server }));
        assert!(!talks(server), "{how}");
        let restarted = serve.order(&json!({ "do": "restart", "port": server }));
        let process = format!("/proc/{}", restarted["pid"]);
        assert!(Path::new(&process).exists() && talks(server), "{how}");
    }
    let mut c = connect(server).expect("a connection");
    serve.order(&json!({ "do": "pause", "port": server }));
    let limit = Duration::from_millis(300);
    c.set_read_timeout(Some(limit)).expect("a limit");
    redis::cmd("PING")
        .query::<String>(&mut c)
        .expect_err("no reply");
    serve.order(&json!({ "do": "resume", "port": server }));
    assert!(talks(server));

    serve.order(&json!({ "do": "user", "port": server, "name": "watcher" }));
    let user = format!("redis://watcher:secret@127.0.0.1:{server}");
    let client = redis::Client::open(user).expect("a client");
    let mut watcher = client.get_connection().expect("a connection");
    cmd!(watcher, "LOCK.INFO", "lock:k").nil();

    let children = children(serve.process.id());
    assert_eq!(children.len(), 1);
    serve.order(&json!({ "do": "end", "port": server }));
    are_gone(children);
    serve.close();
}

#[test]
fn a_proxy_loses_and_delays_replies() {
    let mut serve = Serve::start();
    let server = serve.start_at_port(&json!({ "do": "server" }));
    let proxy = serve.start_at_port(&json!({ "do": "proxy", "port": server }));
    let increase = |key: &str, limit_ms: u64| {
        let mut c = connect(proxy)?;
        c.set_read_timeout(Some(Duration::from_millis(limit_ms)))?;
        redis::cmd("INCR").arg(key).query::<i64>(&mut c)
    };
    let mut inject = |fault: Value, times: u64| {
        serve.order(&json!({
            "do": "inject", "port": proxy, "fault": fault, "words": "INCR x", "times": times,
        }));
    };
    inject(json!("cut"), 2);
    assert_eq!(increase("y", 10_000), Ok(1)); // not both words
    for _ in 0..2 {
        let error = increase("x", 10_000).expect_err("a cut");
        assert!(error.is_connection_dropped(), "{error}");
    }
    assert_eq!(increase("x", 10_000), Ok(3));
    inject(json!("keep"), 1);
    let error = increase("x", 300).expect_err("no reply");
    assert!(error.is_timeout(), "{error}");
    inject(json!({ "delay": 400 }), 1);
    let begun = Instant::now();
    assert_eq!(increase("x", 10_000), Ok(5));
    assert!(begun.elapsed().as_millis() >= 400);
    for fault in ["reset", "reset-request"] {
        inject(json!(fault), 1);
        let error = increase("x", 10_000).expect_err("a reset");
        assert!(error.to_string().contains("reset"), "{error}");
    }
    assert_eq!(increase("x", 10_000), Ok(7)); // the half of a request is none
    inject(json!("cut"), 7);
    let lost = serve.order(&json!({ "do": "lost", "port": proxy }));
    assert_eq!(lost, json!({ "lost": 4, "pending": 7 }));

    for silence in ["silence", "swallow"] {
        let mut c = connect(proxy).expect("a connection");
        let limit = Some(Duration::from_secs(1));
        c.set_read_timeout(limit).expect("a limit");
        serve.order(&json!({ "do": silence, "port": proxy }));
        let increased = redis::cmd("INCR").arg(silence).query::<i64>(&mut c);
        assert!(increased.expect_err("no reply").is_timeout());
        serve.order(&json!({ "do": "speak", "port": proxy }));
        // It has lost bytes.
        let error = redis::cmd("PING").query::<String>(&mut c);
        assert!(error.expect_err("an end").is_connection_dropped());
    }
    let reached = |key: &str| {
        let mut c = connect(server).expect("a connection");
        redis::cmd("EXISTS").arg(key).query::<bool>(&mut c)
    };
    assert_eq!(reached("silence"), Ok(true));
    assert_eq!(reached("swallow"), Ok(false));
    serve.order(&json!({ "do": "end", "port": proxy }));
    eventually(|| !talks(proxy), "the proxy to end");
    assert!(talks(server));
    serve.close();
}

#[test]
fn replicas_take_over() {
    let mut serve = Serve::start();
    let cluster = serve.order(&json!({ "do": "cluster", "replicas": 1 }));
    assert_eq!(cluster["nodes"].as_array().map(Vec::len), Some(6));
    let replica = port(&cluster["nodes"][3]);
    let new = serve.start_at_port(&json!({ "do": "fail-over", "port": replica }));
    assert_eq!(new, replica);
    let all = serve.order(&json!({ "do": "sentinels" }));
    let primary = port(&all["servers"][0]);
    let new = serve.start_at_port(&json!({ "do": "fail-over", "port": primary }));
    assert_eq!(new, port(&all["servers"][1]));
    for new in [replica, new] {
        let mut c = connect(new).expect("a connection");
        assert_eq!(cmd!(c, "ROLE").items().remove(0).text(), "master");
    }
    serve.close();
}

#[test]
fn what_cannot_be_done_is_an_error_and_the_rest_goes_on() {
    let mut serve = Serve::start();
    for (order, why) in [
        (json!({ "do": "kill", "port": 1 }), "port 1"),
        (json!({ "do": "dance" }), "dance"),
        (json!({ "do": "server", "confg": {} }), "confg"),
        (json!([]), "[]"),
        (
            json!({ "do": "server", "config": { "no-such": "x" } }),
            "no-such",
        ),
    ] {
        let answer = serve.answer(&order);
        let error = answer["error"].as_str().unwrap_or_default();
        assert!(error.contains(why), "{order}: {answer}");
    }
    assert!(talks(serve.start_at_port(&json!({ "do": "server" }))));
    serve.close();
}

/// The tests are killed, and with them their end of the pipe goes.
#[test]
fn a_killed_parent_leaves_nothing_behind() {
    let orders = r#"echo '{"do":"server"}'; echo '{"do":"sentinels"}'; exec sleep 600"#;
    let mut parent = Command::new("sh")
        .args(["-c", orders])
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh");
    let pipe = parent.stdout.take().expect("a pipe");
    let mut serve = testbed("serve").stdin(pipe).spawn().expect("testbed");
    let mut answers = BufReader::new(serve.stdout.take().expect("its output"));
    for _ in 0..2 {
        assert_eq!(next_answer(&mut answers).get("error"), None);
    }
    let children = children(serve.id());
    assert_eq!(children.len(), 4);
    parent.kill().expect("a process to kill");
    parent.wait().expect("its end");
    assert!(serve.wait().expect("its end").success());
    are_gone(children);
}

#[test]
fn a_signal_ends_it_though_its_input_is_open() {
    let mut serve = Serve::start();
    serve.order(&json!({ "do": "server" }));
    let children = children(serve.process.id());
    assert_eq!(children.len(), 1);
    send_signal(&serve.process, "TERM");
    assert!(serve.process.wait().expect("its end").success());
    are_gone(children);
}
