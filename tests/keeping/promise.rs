//! The promise of the PING, under losses at random: while a PING gets its PONG, every grant that is kept
//! there stands, and within a third of its lease from the sending of the PING nobody else gets it but by
//! force.

use crate::support::{run, while_stopped};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis::{Connection, ConnectionLike};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use testbed::state::unix_micros;
use testbed::{Builder, Expect, Grant, Server, Talk, cmd, line};

const LOCKS: usize = 4;
const LEASE_MS: i64 = 1000;
/// How long the losses go on.
const LENGTH: Duration = Duration::from_secs(6);

/// A grant that was kept: its token, and when the last PING was sent that got its PONG, by both clocks.
struct Kept {
    token: i64,
    last_sent: Instant,
    last_sent_micros: i64,
}

/// A grant to a thief: its token, and when the thief had it.
struct Stolen {
    token: i64,
    at: Instant,
}

/// What is done to the locks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Losses {
    /// Stalls of the server that outlast leases, in which everybody sends something.
    Stalls,
    /// By hand.
    Force,
}

/// Keeps the lock again and again, and asks whether it still does.
fn keep(server: &Server, lock: usize, seed: u64, is_over: &AtomicBool) -> Vec<Kept> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut all = Vec::new();
    // A lock that comes back under its name has an old grant: of another owner.
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let mut c = server.connection();
        let last_sent = Instant::now();
        let last_sent_micros = unix_micros();
        let call =
            format!("LOCK.ACQUIRE k{lock} a{lock}-{number} PX {LEASE_MS} BLOCK 2000 KEEP 60000");
        let Ok(Ok(grant)) = c.req_command(&line(&call)).map(Grant::try_from) else {
            continue;
        };
        let mut kept = Kept {
            token: grant.token,
            last_sent,
            last_sent_micros,
        };
        while !is_over.load(Ordering::Relaxed) {
            let (sent, sent_micros) = (Instant::now(), unix_micros());
            if c.req_command(&line("PING")).is_err() {
                break;
            }
            (kept.last_sent, kept.last_sent_micros) = (sent, sent_micros);
            sleep(Duration::from_micros(random.random_range(0..3000)));
        }
        all.push(kept);
    }
    all
}

/// Takes the lock as soon as it can be had, and gives it back.
fn steal(server: &Server, lock: usize, waits: bool, is_over: &AtomicBool) -> Vec<Stolen> {
    let mut c = server.connection();
    let block = if waits { "BLOCK 100" } else { "" };
    let mut all = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let owner = format!("{}{lock}", if waits { "w" } else { "t" });
        let call = format!("LOCK.ACQUIRE k{lock} {owner} PX {LEASE_MS} {block}");
        if let Ok(Ok(grant)) = c.send(&line(&call)).map(Grant::try_from) {
            all.push(Stolen {
                token: grant.token,
                at: Instant::now(),
            });
            let _ = run(&mut c, &format!("LOCK.RELEASE k{lock} {owner} ALL")).reply();
        }
        if !waits {
            sleep(Duration::from_millis(1));
        }
    }
    all
}

/// Takes locks away at random.
fn lose(server: &Server, losses: Losses, seed: u64, is_over: &AtomicBool) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut c = server.connection();
    while !is_over.load(Ordering::Relaxed) {
        let lock = random.random_range(0..LOCKS);
        match losses {
            Losses::Stalls => stall(server, &mut c, &mut random),
            Losses::Force => {
                let way = random.random_range(0..8);
                let words = match way {
                    0 => format!("DEL k{lock}"),
                    1 => format!("UNLINK k{lock}"),
                    2 => format!("RENAME k{lock} elsewhere"),
                    3 => format!("PEXPIRE k{lock} 0"),
                    4 => format!("PEXPIRE k{lock} 3"),
                    5 => "FLUSHALL".to_owned(),
                    6 => "SWAPDB 0 1".to_owned(),
                    _ => format!("MOVE k{lock} 1"),
                };
                let _ = run(&mut c, &words).reply();
                sleep(Duration::from_millis(random.random_range(1..40)));
            }
        }
    }
}

fn stall(server: &Server, c: &mut Connection, random: &mut StdRng) {
    let length = Duration::from_millis(random.random_range(500..1400));
    if random.random() {
        // A slow command, with whatever comes in the same batch.
        cmd!(*c, "DEBUG", "SLEEP", length.as_secs_f64()).okay();
    } else {
        while_stopped(server, || sleep(length));
    }
    sleep(Duration::from_millis(random.random_range(1..500)));
}

fn is_kept_to(settings: Builder, losses: Losses) {
    let server = settings.start();
    let is_over = &AtomicBool::new(false);
    let server = &server;
    thread::scope(|scope| {
        let keepers: Vec<_> = (0..LOCKS)
            .map(|lock| scope.spawn(move || keep(server, lock, lock as u64, is_over)))
            .collect();
        let thieves: Vec<_> = (0..LOCKS)
            .map(|lock| {
                [true, false].map(|waits| scope.spawn(move || steal(server, lock, waits, is_over)))
            })
            .collect();
        let nemesis = scope.spawn(move || lose(server, losses, 7, is_over));
        sleep(LENGTH);
        is_over.store(true, Ordering::Relaxed);
        nemesis.join().expect("the losses");
        let mut lost = 0;
        for (kept, stolen) in keepers.into_iter().zip(thieves) {
            let kept = kept.join().expect("a keeper");
            let stolen: Vec<_> = stolen
                .into_iter()
                .flat_map(|thief| thief.join().expect("a thief"))
                .collect();
            for kept in kept {
                let next = stolen.iter().filter(|stolen| stolen.token > kept.token);
                let Some(next) = next.min_by_key(|stolen| stolen.token) else {
                    continue;
                };
                lost += 1;
                let late = kept.last_sent.saturating_duration_since(next.at);
                assert_eq!(late, Duration::ZERO, "a PONG after another's grant");
                let granted_after = (next.token - kept.last_sent_micros) / 1000;
                assert!(
                    losses == Losses::Force || granted_after >= LEASE_MS / 3,
                    "granted to another {granted_after} ms after a PING that got its PONG"
                );
            }
        }
        println!("{lost} grants lost");
        assert!(lost > 0, "nothing was lost");
    });
    assert_eq!(server.signs_of_a_crash(), [""; 0]);
}

fn with_threads() -> Builder {
    let settings = Server::builder().config("io-threads", "3");
    if Server::version().is_redis_from(8, 0) || Server::version().is_valkey_from(8, 0) {
        settings
    } else {
        settings.config("io-threads-do-reads", "yes")
    }
}

#[test]
fn in_stalls() {
    is_kept_to(Server::builder(), Losses::Stalls);
}

#[test]
fn in_stalls_with_io_threads() {
    is_kept_to(with_threads(), Losses::Stalls);
}

#[test]
fn by_force() {
    is_kept_to(Server::builder(), Losses::Force);
}

#[test]
fn by_force_with_io_threads() {
    is_kept_to(with_threads(), Losses::Force);
}
