//! Replies on the wire: both protocols, and names of any bytes.

use crate::support::run;
use redis::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use testbed::{Expect, Server, cmd, effect, started};

const ODD: [&[u8]; 10] = [
    b"\0",
    b"a\0b",
    b"\xff",
    b"\xff\xfe\x00\x01",
    b"\r\n",
    b"+OK\r\n",
    b"$-1\r\n",
    b"%s%n%d%",
    b" \t\"'\\",
    "\u{1f512}".as_bytes(),
];

/// Sends an inline command and demands these bytes and no more.
#[track_caller]
fn wire(stream: &mut TcpStream, line: &str, expected: &str) {
    stream
        .write_all(format!("{line}\r\nECHO end\r\n").as_bytes())
        .expect("a write");
    let expected = format!("{expected}$3\r\nend\r\n");
    let mut reply = vec![0; expected.len()];
    stream.read_exact(&mut reply).expect("as many bytes");
    assert_eq!(String::from_utf8_lossy(&reply), expected, "{line}");
}

fn raw(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a timeout");
    stream
}

#[test]
fn each_reply_is_of_its_type_on_the_wire() {
    let server = Server::start();
    for (resp3, null) in [(false, "$-1\r\n"), (true, "_\r\n")] {
        let mut c = server.connection();
        run(&mut c, "FLUSHALL").okay();
        let mut stream = raw(&server);
        if resp3 {
            enter_resp3(&mut stream);
        }
        wire(&mut stream, "LOCK.INFO k", null);
        wire(&mut stream, "LOCK.FENCE k", null);
        cmd!(c, "LOCK._APPLY", "k", effect("me", 77, 1, 60_000, -1)).okay();
        let grant = |holds: i64| format!("*4\r\n:77\r\n$2\r\nme\r\n:{holds}\r\n:60000\r\n");
        wire(&mut stream, "LOCK.ACQUIRE k me", &grant(2));
        wire(&mut stream, "LOCK.ACQUIRE k you", null);
        wire(&mut stream, "LOCK.FENCE k", ":77\r\n");
        wire(&mut stream, "LOCK.FENCE k 77", "+OK\r\n");
        wire(&mut stream, "LOCK.RELEASE k me", ":1\r\n");
        wire(&mut stream, "LOCK.RENEW k me", &grant(1));
        wire(&mut stream, "LOCK.RELEASE k me", ":0\r\n");
    }
}

/// Switches the protocol, and reads away the greeting.
fn enter_resp3(stream: &mut TcpStream) {
    stream
        .write_all(b"HELLO 3\r\nECHO hello-is-over\r\n")
        .expect("a write");
    let mut seen = Vec::new();
    while !seen.ends_with(b"$13\r\nhello-is-over\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a byte");
        seen.push(byte[0]);
    }
}

#[test]
fn info_is_a_map_or_a_flat_array_of_the_same_fields_in_the_same_order() {
    let server = Server::start();
    let (mut two, mut three) = (server.connection(), server.connection_resp3());
    run(&mut two, "LOCK.ACQUIRE k a").grant();
    let flat = run(&mut two, "LOCK.INFO k").items();
    let names: Vec<_> = flat.iter().step_by(2).cloned().map(Expect::text).collect();
    let expected = [
        "owner", "token", "holds", "lease-ms", "ttl-ms", "held-ms", "waiters", "holders", "limit",
    ];
    assert_eq!(names, expected);

    let Value::Map(pairs) = run(&mut three, "LOCK.INFO k").value() else {
        panic!("a map expected");
    };
    let names: Vec<_> = pairs.iter().map(|(name, _)| name.clone().text()).collect();
    assert_eq!(names, expected);
    let kinds = |value: &Value| matches!(value, Value::Int(_));
    assert!(pairs[1..].iter().all(|(_, value)| kinds(value)));
    assert!(flat[3..].iter().step_by(2).all(kinds));
}

#[test]
fn keys_and_owners_of_any_bytes_come_back_as_they_are() {
    let server = Server::start();
    for mut c in [server.connection(), server.connection_resp3()] {
        for key in ODD {
            for owner in ODD {
                let grant = cmd!(c, "LOCK.ACQUIRE", key, owner, "PX", 60_000).grant();
                assert_eq!(grant.owner, owner);
                assert_eq!(cmd!(c, "LOCK.RENEW", key, owner).grant(), grant);
                let info = cmd!(c, "LOCK.INFO", key).lock_info();
                assert_eq!((info.owner.as_slice(), info.token), (owner, grant.token));
                let longer = [owner, b"\0"].concat();
                cmd!(c, "LOCK.RELEASE", key, longer).refused("NOTOWNER");
                let release = cmd!(c, "LOCK.RELEASE", key, owner, "TOKEN", grant.token);
                assert_eq!(release.int(), 0);
            }
        }
        assert_eq!(run(&mut c, "DBSIZE").int(), 0);
    }
}

#[test]
fn replies_keep_their_order_in_a_pipeline() {
    let (server, mut c) = started();
    let mut stream = raw(&server);
    cmd!(c, "LOCK._APPLY", "k", effect("me", 5, 1, 60_000, -1)).okay();
    let lines = [
        "LOCK.FENCE k 5",
        "LOCK.FENCE k",
        "LOCK.RELEASE k me",
        "LOCK.FENCE k",
    ];
    let replies = "+OK\r\n:5\r\n:0\r\n$-1\r\n";
    wire(&mut stream, &lines.join("\r\n"), replies);
}
