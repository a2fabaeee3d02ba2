//! The test harness itself, on servers without the module: where it is wrong, every other test may
//! pass or fail for nothing.

use testbed::{Expect, Server, aof, cmd, dump};

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
        server.wait_for_rewrite();
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
