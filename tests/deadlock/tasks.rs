//! Tasks that take locks in any order, with no time-out: they all come to their end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;
use testbed::{Expect, Server, cmd, line, traffic};

use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use redis::{Connection, ConnectionLike, Value};

const LOCKS: [&str; 5] = ["k", "j", "l", "m", "n"];
const ROUNDS: usize = 40;

/// In which order a task takes its locks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Any,
    ByName,
}

/// What the tasks have in common.
struct Tasks<'a> {
    server: &'a Server,
    order: Order,
    disturbed: bool,
    told: AtomicUsize,
    lost: AtomicUsize,
}

impl Tasks<'_> {
    /// A task: each round takes some locks, as a reader or a writer, and releases all of them.
    fn run(&self, owner: &str, random: &mut StdRng, rounds: &Sender<()>) {
        let mut c = self.server.connection();
        let mut round = 0;
        while round < ROUNDS || !self.has_happened() {
            let mut locks = LOCKS.to_vec();
            locks.shuffle(random);
            locks.truncate(random.random_range(2..=3));
            if self.order == Order::ByName {
                locks.sort_unstable();
            }
            let all = locks
                .iter()
                .all(|key| self.take(&mut c, key, owner, random));
            if all {
                round += 1;
                rounds.send(()).expect("the test follows");
            }
            for key in locks {
                // Lost by force, or never taken.
                let release = line(&format!("LOCK.RELEASE {key} {owner} ALL"));
                if c.req_command(&release).is_err() {
                    c = self.server.connection();
                    let _ = c.req_command(&release);
                }
            }
        }
    }

    /// Whether a deadlock has been reported and a connection killed, where either is to happen: chance may
    /// take more rounds for it.
    fn has_happened(&self) -> bool {
        let told = self.told.load(Ordering::Relaxed) > 0;
        let lost = self.lost.load(Ordering::Relaxed) > 0;
        (told || self.order == Order::ByName) && (lost || !self.disturbed)
    }

    /// Waits for a lock, as long as it takes; false when it is told not to, or is disconnected.
    fn take(&self, c: &mut Connection, key: &str, owner: &str, random: &mut StdRng) -> bool {
        let shared = ["", "", "SHARED"].choose(random).unwrap();
        let call = format!("LOCK.ACQUIRE {key} {owner} {shared} PX 600000 BLOCK 0");
        match c.req_command(&line(&call)) {
            Ok(Value::ServerError(error)) => {
                assert_eq!(error.code(), "DEADLOCK");
                self.told.fetch_add(1, Ordering::Relaxed);
                false
            }
            Ok(value) => {
                assert_eq!(value.grant().owner, owner.as_bytes());
                true
            }
            Err(_) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                *c = self.server.connection();
                false
            }
        }
    }
}

/// Runs so many tasks to their end; how many calls were told, and how many connections were killed.
#[track_caller]
fn run(owners: usize, order: Order, disturbed: bool) -> (usize, usize) {
    let server = Server::start();
    let seed = traffic::seed();
    let tasks = Tasks {
        server: &server,
        order,
        disturbed,
        told: AtomicUsize::new(0),
        lost: AtomicUsize::new(0),
    };
    let over = AtomicBool::new(false);
    let (sender, rounds) = channel();
    thread::scope(|scope| {
        for number in 0..owners {
            let (tasks, rounds) = (&tasks, sender.clone());
            let mut random = StdRng::seed_from_u64(seed.wrapping_add(number as u64));
            scope.spawn(move || tasks.run(&format!("owner{number}"), &mut random, &rounds));
        }
        if disturbed {
            scope.spawn(|| disturb(&server, seed, &over));
        }
        drop(sender);
        loop {
            match rounds.recv_timeout(testbed::patience(Duration::from_secs(60))) {
                Ok(()) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => hangs(&server),
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    let told = tasks.told.into_inner();
    // A caller that is killed right after its answer may not have read it.
    let counted = usize::try_from(server.count("deadlocks")).expect("a count");
    assert!(counted >= told && (disturbed || counted == told));
    (told, tasks.lost.into_inner())
}

/// Kills who waits, and frees locks by force.
fn disturb(server: &Server, seed: u64, over: &AtomicBool) {
    let mut random = StdRng::seed_from_u64(!seed);
    let mut c = server.connection();
    while !over.load(Ordering::Relaxed) {
        let key = LOCKS.choose(&mut random).unwrap();
        let waiters = cmd!(c, "LOCK.WAITERS", key).items();
        match (random.random_range(0..3), waiters.choose(&mut random)) {
            (0, Some(waiter)) => {
                let id = waiter.clone().fields()["client-id"].clone().int();
                let _ = cmd!(c, "CLIENT", "KILL", "ID", id);
            }
            (1, _) => {
                let _ = cmd!(c, "DEL", key);
            }
            _ => thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Ends a test whose tasks wait for each other, and shows how.
fn hangs(server: &Server) -> ! {
    let mut c = server.connection();
    for key in LOCKS {
        let of = |c: &mut Connection, command: &str| format!("{:?}", cmd!(*c, command, key));
        eprintln!("{key}: {}", of(&mut c, "LOCK.HOLDERS"));
        eprintln!("{key}: {}", of(&mut c, "LOCK.WAITERS"));
    }
    // The tasks would wait forever.
    std::process::abort();
}

#[test]
fn tasks_with_no_order_are_told_and_none_hangs() {
    for owners in 2..=8 {
        let (told, lost) = run(owners, Order::Any, false);
        println!("measured: {owners} tasks, {told} calls were told");
        assert_eq!(lost, 0);
        assert!(told > 0);
    }
}

#[test]
fn tasks_that_are_killed_and_locks_that_are_freed_by_force_leave_none_hanging() {
    let (told, lost) = run(8, Order::Any, true);
    println!("measured: 8 tasks, {told} calls were told, {lost} connections were killed");
    assert!(told > 0 && lost > 0);
}

#[test]
fn tasks_that_keep_an_order_are_never_told() {
    assert_eq!(run(8, Order::ByName, false), (0, 0));
}
