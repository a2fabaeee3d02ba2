//! Clients that die, or whose time is up, while the server is held up: what it has not read yet when
//! it hands a lock over.

use redis::Connection;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{
    Expect, Server, Talk, at_once, cmd, eventually, line, nobody_waits, owner, post_all, questions,
    queue, run, started, stream, wait, wait_as, waiters, with_threads,
};

/// Locks that are released behind one stall.
const LOCKS: usize = 10;
/// Stalls of each kind.
const STALLS: usize = 4;

fn key(number: usize) -> String {
    format!("k{number}")
}

/// A server that runs commands in one thread, and one that reads and writes with others.
pub(crate) fn servers() -> [Server; 2] {
    [Server::start(), with_threads()]
}

/// A client that waits for this lock as `b` and then holds it for ten minutes.
fn call(key: &str) -> String {
    format!("LOCK.ACQUIRE {key} b PX 600000 BLOCK 0")
}

/// How a client that waits comes to its end.
#[derive(Clone, Copy, Debug)]
enum Death {
    /// Its process is killed.
    Killed,
    /// It closes its connection.
    Closed,
    /// It closes with a reply unread: its system resets the connection.
    Reset,
}

enum Mortal {
    Process(Child),
    Stream(TcpStream),
}

impl Mortal {
    /// A client that waits for `key` as `b`; none where its program is not installed.
    fn waits(server: &Server, c: &mut Connection, key: &str, death: Death) -> Option<Self> {
        let call = call(key);
        let mortal = match death {
            Death::Killed => Self::Process(redis_cli(server, &call)?),
            Death::Closed => Self::Stream(stream(server, &[&call])),
            Death::Reset => Self::Stream(stream(server, &["PING", &call])),
        };
        eventually(|| waiters(c, key) == ["b"], "the first to wait");
        Some(mortal)
    }

    fn die(self) {
        match self {
            Self::Process(mut child) => {
                child.kill().expect("a process");
                child.wait().expect("its end");
            }
            // Not by its drop alone: a process that is being started may have the socket too.
            Self::Stream(stream) => {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }
}

/// The server's own client, running one command; none where it is not installed.
fn redis_cli(server: &Server, call: &str) -> Option<Child> {
    Command::new("redis-cli")
        .args(["-p", &server.port().to_string()])
        .args(call.split(' '))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .ok()
}

/// Behind a stall all locks are released, whose first waiters die in it. How often the lock went to the
/// one behind; none where the clients are not installed.
fn survivors(server: &Server, stall: Duration, death: Death) -> Option<usize> {
    let mut c = server.connection();
    let mut holder = server.connection();
    let mut survived = 0;
    let mut stalls = 0;
    while stalls < STALLS {
        let mut dying = Vec::new();
        let mut next = Vec::new();
        for number in 0..LOCKS {
            let key = key(number);
            cmd!(holder, "LOCK.ACQUIRE", &key, "a", "PX", 600_000).grant();
            dying.push(Mortal::waits(server, &mut c, &key, death)?);
            next.push(wait(server, &format!("{key} c PX 600000 BLOCK 0")));
        }
        let began = Instant::now();
        release_behind_a_stall(&mut holder, stall, LOCKS);
        sleep(stall / 5);
        dying.into_iter().for_each(Mortal::die);
        let in_time = began.elapsed() < stall;
        holder.receive().okay();
        for (number, next) in next.iter_mut().enumerate() {
            assert_eq!(holder.receive().int(), 0);
            survived += usize::from(in_time && goes_to_the_next(&mut c, &key(number)));
            cmd!(c, "LOCK.RELEASE", key(number), "c", "ALL").value();
            cmd!(c, "DEL", key(number)).value();
            next.receive().value();
        }
        // On a busy machine a death may come too late; that stall says nothing.
        stalls += usize::from(in_time);
    }
    nobody_waits(server);
    Some(survived)
}

/// How many connections the server has.
pub(crate) fn clients(server: &Server) -> i64 {
    server.number("clients", "connected_clients")
}

/// Has the server sleep for so long, and so many locks released behind that.
fn release_behind_a_stall(holder: &mut Connection, stall: Duration, locks: usize) {
    let sleeps = format!("DEBUG SLEEP {}", stall.as_secs_f64());
    let releases = (0..locks).map(|n| format!("LOCK.RELEASE {} a", key(n)));
    post_all(holder, [sleeps].into_iter().chain(releases));
}

/// Whether the lock is `c`'s by and by; a client that was told of its grant would keep it.
fn goes_to_the_next(c: &mut Connection, key: &str) -> bool {
    let since = Instant::now();
    while cmd!(*c, "LOCK.INFO", key).lock_info().owner != b"c" {
        if since.elapsed() > Duration::from_secs(10) {
            return false;
        }
    }
    true
}

#[test]
fn who_dies_in_a_stall_loses_the_lock_to_the_next() {
    for death in [Death::Killed, Death::Closed, Death::Reset] {
        for server in servers() {
            for millis in [50, 500] {
                let what = format!("{death:?}, {millis} ms");
                match survivors(&server, Duration::from_millis(millis), death) {
                    Some(survived) => {
                        println!("{what}: {survived} of {}", LOCKS * STALLS);
                        assert!(survived + 1 >= LOCKS * STALLS, "{what}");
                    }
                    None => println!("{what}: left out, for want of redis-cli"),
                }
            }
        }
    }
}

/// A client that waits for `k` as `b`, and closes as soon as it has read its grant.
fn runs_once(server: &Server, c: &mut Connection) -> std::thread::JoinHandle<String> {
    let client = if let Some(child) = redis_cli(server, &call("k")) {
        std::thread::spawn(|| {
            let output = child.wait_with_output().expect("its output");
            String::from_utf8(output.stdout).expect("text")
        })
    } else {
        let mut stream = stream(server, &[&call("k")]);
        std::thread::spawn(move || {
            let mut reply = [0; 256];
            let length = stream.read(&mut reply).expect("a reply");
            String::from_utf8_lossy(&reply[..length]).into_owned()
        })
    };
    eventually(|| queue(c) == ["b"], "a client to wait");
    client
}

#[test]
fn who_prints_its_grant_and_exits_keeps_the_lock() {
    for server in servers() {
        let mut c = server.connection();
        let mut holder = server.connection();
        for round in 0..40 {
            run(&mut holder, "LOCK.ACQUIRE k a PX 600000").grant();
            let client = runs_once(&server, &mut c);
            let [mut next] = wait_as(&server, ["c"]);
            let commands = &["DEBUG SLEEP 0.05", "LOCK.RELEASE k a"][1 - round % 2..];
            post_all(&mut holder, commands);
            let told = client.join().expect("a client");
            assert!(told.contains('b') && told.contains("600000"), "{told:?}");
            for _ in commands {
                holder.receive().value();
            }
            // The server has read the end of its connection.
            eventually(|| clients(&server) == 4, "it to be gone");
            for _ in 0..20 {
                run(&mut c, "PING").value();
                assert_eq!(owner(&mut c), "b", "round {round}");
            }
            assert_eq!(run(&mut c, "LOCK.RELEASE k b").int(), 0);
            assert_eq!(next.granted().owner, b"c");
            assert_eq!(run(&mut c, "LOCK.RELEASE k c").int(), 0);
            drop(next);
            eventually(|| clients(&server) == 3, "the next to be gone");
        }
    }
}

#[test]
fn a_wait_that_ended_in_a_stall_is_over() {
    for server in servers() {
        let (mut c, mut holder) = (server.connection(), server.connection());
        run(&mut holder, "LOCK.ACQUIRE k a PX 600000").grant();
        let mut late = wait(&server, "k b BLOCK 1000");
        let mut again = wait(&server, "k b BLOCK 1050");
        let mut next = wait(&server, "k c PX 600000 BLOCK 60000");
        let replies = at_once(&mut holder, &["DEBUG SLEEP 2", "LOCK.RELEASE k a"]);
        assert_eq!(replies[1].clone().int(), 0);
        assert_eq!(next.granted().owner, b"c");
        late.receive().nil();
        again.receive().nil();
        assert_eq!(owner(&mut c), "c");
        // Nor does a re-entry of the holder's own come too late.
        let mut own = wait(&server, "k d BLOCK 1000");
        let replies = at_once(
            &mut next,
            &["DEBUG SLEEP 1.5", "LOCK.RELEASE k c", "LOCK.INFO k"],
        );
        replies[2].clone().nil();
        own.receive().nil();
    }
}

#[test]
fn who_has_closed_its_sending_side_alone_is_not_told_of_a_lock_that_it_does_not_get() {
    for server in servers() {
        let (mut c, mut holder) = (server.connection(), server.connection());
        for _ in 0..STALLS {
            run(&mut holder, "LOCK.ACQUIRE k a PX 600000").grant();
            let mut stream = stream(&server, &[&call("k")]);
            eventually(|| queue(&mut c) == ["b"], "it to wait");
            let [mut next] = wait_as(&server, ["c"]);
            // The grant is made before it closes, and its reply is written after that.
            post_all(&mut holder, ["LOCK.RELEASE k a", "DEBUG SLEEP 0.3"]);
            sleep(Duration::from_millis(100));
            stream.shutdown(Shutdown::Write).expect("closed");
            let mut told = Vec::new();
            stream.read_to_end(&mut told).expect("an end");
            holder.receive().int();
            holder.receive().okay();
            // On a busy machine it may be told before it closes, and keeps the lock then.
            if told.starts_with(b"*") {
                assert_eq!(owner(&mut c), "b");
                assert_eq!(run(&mut c, "LOCK.RELEASE k b").int(), 0);
            }
            assert_eq!(next.granted().owner, b"c");
            assert_eq!(run(&mut c, "LOCK.RELEASE k c").int(), 0);
        }
    }
}

#[test]
fn who_waited_and_closed_within_one_stall_loses_the_lock() {
    // With threads that read for the server the release may be run first, and it is no wait.
    let (server, mut c) = started();
    let (mut holder, mut slow) = (server.connection(), server.connection());
    let mut stalls = 0;
    while stalls < STALLS {
        run(&mut holder, "LOCK.ACQUIRE k a PX 600000").grant();
        // Nobody waits, nor did of late: the module does not follow the ticks of the loop.
        sleep(Duration::from_millis(50));
        let mut stream = stream(&server, &["PING"]);
        let mut pong = [0; 7];
        stream.read_exact(&mut pong).expect("a reply");
        let began = Instant::now();
        slow.post(&line("DEBUG SLEEP 0.5"));
        sleep(Duration::from_millis(100));
        write!(stream, "{}\r\n", call("k")).expect("sent");
        sleep(Duration::from_millis(20));
        stream.shutdown(Shutdown::Both).expect("closed");
        sleep(Duration::from_millis(20));
        holder.post(&line("LOCK.RELEASE k a"));
        let in_time = began.elapsed() < Duration::from_millis(450);
        slow.receive().okay();
        holder.receive().int();
        if in_time {
            eventually(|| run(&mut c, "EXISTS k").int() == 0, "the lock to be free");
        }
        run(&mut c, "DEL k").int();
        stalls += usize::from(in_time);
    }
}

#[test]
fn a_question_is_about_many_where_many_are_handed_a_lock() {
    const MANY: usize = 300;
    for server in servers() {
        let mut holder = server.connection();
        let mut next: Vec<_> = (0..MANY)
            .map(|number| {
                cmd!(holder, "LOCK.ACQUIRE", key(number), "a", "PX", 600_000).grant();
                let mut next = server.connection();
                next.post(&line(&format!("LOCK.ACQUIRE {} c BLOCK 0", key(number))));
                next
            })
            .collect();
        eventually(|| server.count("waiting") == 300, "all to wait");
        let before = questions(&server);
        release_behind_a_stall(&mut holder, Duration::from_millis(100), MANY);
        for next in &mut next {
            assert_eq!(next.receive().grant().owner, b"c");
        }
        let asked = questions(&server) - before;
        assert!((1..=30).contains(&asked), "{asked} questions");
    }
}
