//! The test harness itself, on servers without the module: where it is wrong, every other test may
//! pass or fail for nothing.

use redis::Value;
use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;
use testbed::{Expect, Server, Talk, aof, cmd, dump, eventually, post, server_cpu};

/// A server as it comes, with these settings.
fn plain(settings: &[(&str, &str)]) -> Server {
    let builder = Server::builder().without_module();
    settings
        .iter()
        .fold(builder, |builder, (name, value)| {
            builder.config(name, value)
        })
        .start()
}

/// The words of an append-only file's command, for comparison with what was sent.
fn words(command: &aof::Command) -> Vec<String> {
    command
        .iter()
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

#[test]
fn dropping_the_guard_leaves_no_process_and_no_folder() {
    let server = plain(&[]);
    let process = format!("/proc/{}", server.pid());
    let dir = server.dir().to_owned();
    assert!(Path::new(&process).exists() && dir.exists());
    drop(server);
    assert!(!Path::new(&process).exists() && !dir.exists());
}

#[test]
fn nobody_gets_the_port_of_a_server_that_is_down() {
    let mut server = plain(&[]);
    let place = (Ipv4Addr::LOCALHOST, server.port());
    let mut connection = server.connection();
    cmd!(connection, "PING").text();
    server.kill9();
    drop(connection);
    let refused = TcpStream::connect(place).expect_err("a server that is down");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    // Every test bed claims a port so.
    let claimed = UdpSocket::bind(place).expect_err("a claimed port");
    assert_eq!(claimed.kind(), ErrorKind::AddrInUse);
    server.restart();
    drop(server);
    UdpSocket::bind(place).expect("a port that is free again");
}

#[test]
fn a_restart_keeps_port_and_data() {
    let mut server = plain(&[("appendonly", "yes")]);
    let (port, pid) = (server.port(), server.pid());
    cmd!(server.connection(), "SET", "k", b"\0\xff\r\n").okay();
    server.restart();
    assert_eq!((server.port(), server.pid() == pid), (port, false));
    assert_eq!(cmd!(server.connection(), "GET", "k").bytes(), b"\0\xff\r\n");
    let maxmemory = |server: &Server| server.info_field("memory", "maxmemory");
    cmd!(
        server.connection(),
        "CONFIG",
        "SET",
        "maxmemory",
        123_000_000
    )
    .okay();
    cmd!(server.connection(), "CONFIG", "REWRITE").okay();
    server.restart();
    assert_eq!(maxmemory(&server), "123000000");
    server
        .reconfigure(|settings| settings.config("maxmemory", "124000000"))
        .restart();
    assert_eq!(maxmemory(&server), "124000000");
    assert_eq!(cmd!(server.connection(), "GET", "k").bytes(), b"\0\xff\r\n");
}

#[test]
fn kill9_loses_what_was_not_to_be_kept() {
    let mut server = plain(&[("save", "3600 1")]);
    cmd!(server.connection(), "SET", "k", "v").okay();
    server.kill9();
    server.restart();
    cmd!(server.connection(), "GET", "k").nil();

    cmd!(server.connection(), "SET", "k", "v").okay();
    server.stop();
    server.restart();
    assert_eq!(cmd!(server.connection(), "GET", "k").text(), "v");
}

/// The server refuses to go while it writes its first AOF; here that takes it a second.
#[test]
fn a_server_that_refuses_to_go_is_asked_again() {
    let mut server = plain(&[("appendonly", "no"), ("rdb-key-save-delay", "10000")]);
    let mut c = server.connection();
    for number in 0..100 {
        cmd!(c, "SET", number, number).okay();
    }
    cmd!(c, "CONFIG", "SET", "appendonly", "yes").okay();
    server.stop();
    assert!(server.log().contains("can't exit"), "{}", server.log());
}

#[test]
fn a_refused_setting_gives_the_log() {
    let refused = Server::builder()
        .without_module()
        .config("no-such-setting", "1")
        .try_start();
    let log = refused.err().expect("a refusal");
    assert!(log.contains("no-such-setting"), "{log}");

    let mut server = plain(&[]);
    let log = server
        .reconfigure(|settings| settings.config("maxmemory", "much"))
        .try_restart()
        .unwrap_err();
    assert!(log.contains("maxmemory"), "{log}");
}

#[test]
fn many_servers_at_once_get_ports_of_their_own() {
    let servers: Vec<_> = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..8).map(|_| scope.spawn(|| plain(&[]))).collect();
        starts
            .into_iter()
            .map(|start| start.join().expect("a server"))
            .collect()
    });
    for server in &servers {
        assert_eq!(
            server.info_field("server", "process_id"),
            server.pid().to_string()
        );
    }
}

#[test]
fn a_password_does_not_keep_the_harness_out() {
    let server = plain(&[("requirepass", "secret")]);
    let mut c = server.connection_as("default", "secret");
    assert_eq!(cmd!(c, "PING").text(), "PONG");
    cmd!(server.connection(), "PING").refused("NOAUTH");
}

#[test]
fn a_replica_is_in_step() {
    let primary = plain(&[]);
    let mut c = primary.connection();
    cmd!(c, "SET", "before", "1").okay();
    let replica = primary.replica_with(testbed::Builder::without_module);
    assert_eq!(cmd!(replica.connection(), "GET", "before").text(), "1");
    for n in 0..1000 {
        cmd!(c, "SET", "after", n).okay();
    }
    primary.wait_for_sync(&replica);
    assert_eq!(cmd!(replica.connection(), "GET", "after").text(), "999");
    cmd!(replica.connection(), "SET", "k", "v").refused("READONLY");
}

#[test]
fn the_aof_is_read_in_order_over_a_rewrite() {
    for (preamble, base) in [("yes", vec![]), ("no", vec!["SET", "k", "1"])] {
        let server = plain(&[("appendonly", "yes"), ("aof-use-rdb-preamble", preamble)]);
        let mut c = server.connection();
        cmd!(c, "SET", "k", "1").okay();
        let before: Vec<_> = server.aof().iter().map(words).collect();
        assert_eq!(before, [vec!["SELECT", "0"], vec!["SET", "k", "1"]]);

        cmd!(c, "BGREWRITEAOF").value();
        let rewritten = || {
            let fields = server.info("persistence");
            fields["aof_rewrite_in_progress"] == "0" && fields["aof_rewrite_scheduled"] == "0"
        };
        eventually(rewritten, "the rewrite to end");
        cmd!(c, "DEL", "k").int();
        let mut after: Vec<_> = server.aof().iter().map(words).collect();
        after.retain(|command| command[0] != "SELECT");
        let mut expected = vec![base, vec!["DEL", "k"]];
        expected.retain(|command| !command.is_empty());
        assert_eq!(after, expected);
    }
}

#[test]
fn a_torn_or_annotated_aof_gives_its_whole_commands() {
    let whole = b"#TS:1700000000\r\n*2\r\n$3\r\nDEL\r\n$2\r\n\r\n\r\n*1\r\n$4\r\nPING\r\n";
    let expected = [
        vec![b"DEL".to_vec(), b"\r\n".to_vec()],
        vec![b"PING".to_vec()],
    ];
    assert_eq!(aof::parse(whole), expected);
    assert_eq!(aof::parse(&whole[..whole.len() - 1]), expected[..1]);
    assert!(aof::parse(b"REDIS0011\xfa").is_empty());
}

#[test]
fn a_resealed_payload_is_restored() {
    let server = plain(&[]);
    let mut c = server.connection();
    cmd!(c, "SET", "k", "some text").okay();
    let payload = cmd!(c, "DUMP", "k").bytes();
    let (mut value, rdb_version) = dump::split(&payload);
    assert_eq!(dump::reseal(&value, rdb_version), payload);

    *value.last_mut().expect("text") = b'T';
    cmd!(
        c,
        "RESTORE",
        "changed",
        0,
        dump::reseal(&value, rdb_version)
    )
    .okay();
    assert_eq!(cmd!(c, "GET", "changed").text(), "some texT");
    let unsealed = [value, payload[payload.len() - 10..].to_vec()].concat();
    cmd!(c, "RESTORE", "unsealed", 0, unsealed).refused("ERR");
}

#[test]
fn errors_keep_their_whole_text() {
    let server = plain(&[]);
    for mut c in [server.connection(), server.connection_resp3()] {
        let script = "return redis.error_reply(ARGV[1])";
        let mut error = |text: &str| {
            cmd!(c, "EVAL", script, 0, text)
                .unwrap_err()
                .text()
                .to_owned()
        };
        assert_eq!(
            error("NOTHELD k is free: nothing to do"),
            "NOTHELD k is free: nothing to do"
        );
        assert_eq!(error("READONLY really"), "READONLY really");
        cmd!(c, "INCR", "k", "too many").refused("ERR");
    }
}

#[test]
fn values_within_a_reply_can_be_refused_too() {
    let server = plain(&[]);
    let mut c = server.connection();
    cmd!(c, "MULTI").okay();
    cmd!(c, "SET", "k", "v").value();
    cmd!(c, "LPUSH", "k", "v").value();
    let mut results = cmd!(c, "EXEC").items().into_iter();
    results.next().expect("a first result").okay();
    results
        .next()
        .expect("a second result")
        .refused("WRONGTYPE");
}

#[test]
fn a_map_reads_the_same_in_both_protocols() {
    let server = plain(&[]);
    let expected = [("maxmemory".to_owned(), Value::BulkString(b"0".to_vec()))];
    for mut c in [server.connection(), server.connection_resp3()] {
        let fields = cmd!(c, "CONFIG", "GET", "maxmemory").fields();
        assert_eq!(fields.into_iter().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_posted_command_is_answered_later() {
    let server = plain(&[]);
    let mut waiting = server.connection();
    post!(waiting, "BLPOP", "list", 0);
    eventually(
        || server.info_field("clients", "blocked_clients") == "1",
        "a blocked client",
    );
    cmd!(server.connection(), "RPUSH", "list", "v").int();
    assert_eq!(waiting.receive().items().len(), 2);
}

#[test]
fn one_vector_can_carry_all_arguments() {
    let server = plain(&[]);
    let mut c = server.connection();
    let arguments: Vec<Vec<u8>> = vec![b"k".to_vec(), vec![], b"PX".to_vec(), b"90000".to_vec()];
    cmd!(c, "SET", arguments).okay();
    assert_eq!(cmd!(c, "GET", "k").bytes(), b"");
}

#[test]
fn the_servers_cpu_time_grows_with_its_work() {
    let server = plain(&[]);
    let mut c = server.connection();
    let before = server_cpu(server.pid());
    cmd!(c, "EVAL", "for i = 1, 3000000 do local x = i * i end", 0).nil();
    let used = server_cpu(server.pid()).saturating_sub(before);
    assert!(used > Duration::from_millis(1), "{used:?}");
}

#[test]
fn the_log_spans_restarts() {
    let mut server = plain(&[]);
    server.restart();
    let starts = server.log().matches("Ready to accept connections").count();
    assert_eq!(starts, 2);
    let on_disk = fs::read_to_string(server.dir().join("server.log")).expect("a log");
    assert_eq!(server.log(), on_disk);
}
