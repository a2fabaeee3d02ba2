//! Many locks, many calls.

use super::count;
use crate::failure::{Failure, Verdict, ensure};
use crate::ledger::Grant;
use crate::limits::ms;
use crate::stage::{LEASE, Stage};
use crate::worker::{Call, Usage, Worker};
use history::{Acquire, Action, Down, Granted, History, Mode, Outcome, check};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;
use testbed::{Expect, cmd};

/// How many calls are under way at once, of those that must be answered at once.
const AT_ONCE: usize = 50;

/// Makes so many calls, no more than some at a time; gives what each came to.
fn in_turn<T>(
    count: usize,
    call: impl Fn(usize) -> Call,
    take: impl Fn(Call) -> Verdict<T>,
) -> Verdict<Vec<T>> {
    let mut under_way = VecDeque::new();
    let mut all = Vec::new();
    for number in 0..count {
        if under_way.len() == AT_ONCE {
            all.push(take(under_way.pop_front().expect("a call"))?);
        }
        under_way.push_back(call(number));
    }
    for call in under_way {
        all.push(take(call)?);
    }
    Ok(all)
}

/// Thousands of held locks, in a process that is then stopped for longer than their lease.
pub(super) fn many_held(stage: &Stage) -> Verdict {
    let (site, worker) = stage.pair()?;
    let count = stage.count(1000, 10_000);
    let keep = ms(15_000);
    let acquire = |number| worker.acquire(&format!("held-{number}")).keep(keep).ask();
    let held = in_turn(count, acquire, |call| call.granted())?;
    stage.agree(&site)?;
    worker.stall(ms(3000)).ok()?;
    stage.agree(&site)?;
    let still = stage.ledger().held().len();
    let lost = count - still;
    ensure!(lost == 0, "{lost} of {count} lost after a stall");
    for grant in held.iter().step_by(count / 100) {
        ensure!(worker.check(grant)?, "{} is lost after a stall", grant.key);
    }
    give_back(&worker, &held)?;
    stage.agree(&site)?;
    stage.end(&site, &[&worker], LEASE)
}

fn give_back(worker: &Worker, held: &[Grant]) -> Verdict {
    let release = |number| worker.release(&held[number]);
    in_turn(held.len(), release, |call| call.ok()).map(|_| ())
}

/// Hundreds of tasks on ten locks, judged by a history of all calls.
pub(super) fn crowd(stage: &Stage) -> Verdict {
    const LOCKS: usize = 10;
    let (site, worker) = stage.pair()?;
    let tasks = stage.count(100, 500);
    let turns = stage.count(4, 6);
    let begun = Instant::now();
    let now = || u64::try_from(begun.elapsed().as_micros()).expect("a short time");
    let history = Mutex::new(History::default());
    let record =
        |task: usize, key: &str, owner: &str, action: Action, sent: u64, outcome: Outcome| {
            let client = u32::try_from(task).expect("a small number");
            let call = history::Call::sent(client, key, owner, action, sent);
            let call = call.ended(now(), outcome);
            history.lock().expect("a history").calls.push(call);
        };
    let lease = ms(30_000);
    let work = |task: usize| -> Verdict {
        for turn in 0..turns {
            let key = format!("key-{}", (task + turn * 3) % LOCKS);
            let sent = now();
            let call = worker.acquire(&key).lease(lease).wait(ms(60_000)).ask();
            let grant = call.granted()?;
            let millis = u64::try_from(lease.as_millis()).expect("a short time");
            let action = Action::Acquire(Acquire {
                lease: Some(millis),
                block: true,
                holds: Some(1),
                ..Acquire::default()
            });
            let outcome = Outcome::Grant(Granted {
                token: grant.token,
                owner: grant.owner.clone(),
                holds: 1,
                lease: millis,
                limit: None,
            });
            record(task, &key, &grant.owner, action, sent, outcome);
            let sent = now();
            worker.release(&grant).ok()?;
            let action = Action::Release {
                down: Down::To(0),
                token: Some(grant.token),
            };
            record(task, &key, &grant.owner, action, sent, Outcome::Left(0));
        }
        Ok(())
    };
    let (send, done) = channel();
    thread::scope(|scope| {
        for task in 0..tasks {
            let (send, work) = (send.clone(), &work);
            scope.spawn(move || send.send(work(task)));
        }
    });
    drop(send);
    done.into_iter().collect::<Verdict<()>>()?;
    stage.agree(&site)?;
    let history = history.into_inner().expect("a history");
    let report = check(&history, Mode::Strict);
    if let Some(violation) = report.violations.first() {
        return Err(Failure::Wrong(violation.to_string()));
    }
    let (grants, all) = (report.counts.grants, tasks * turns);
    ensure!(grants == all, "{grants} grants of {all}");
    stage.end(&site, &[&worker], lease)
}

/// The resources of a worker, and its number of connections.
fn measure(worker: &Worker, server: &mut testbed::redis::Connection) -> (Usage, usize) {
    let clients = cmd!(*server, "CLIENT", "LIST").text();
    (worker.usage(), clients.lines().count())
}

/// Thousands of locks and waits, one after the other: nothing grows.
pub(super) fn growth(stage: &Stage) -> Verdict {
    /// The CPU time that an idle runtime may take between two looks.
    const MEMORY_KB: u64 = 48 * 1024;
    const THREADS: usize = 16;
    /// Idle ones that a client may keep, the polling one, the user's own, and this program's.
    const CONNECTIONS: usize = 22;
    const TASKS: usize = 10;
    /// How many waits there are to a connection that is opened then: those that wait have theirs by now, but for
    /// what a client lets go of between two bursts.
    const WAITS: usize = 5;
    let (site, worker) = stage.pair()?;
    let mut server = site.server().connection();
    let calls = stage.count(2000, 50_000);
    let half = || -> Verdict {
        let acquire = |key: &str| worker.acquire(key).wait(ms(20_000));
        let ask = |number| acquire(&format!("free-{}", number % 1000)).ask();
        let give_back = |call: Call| worker.release(&call.granted()?).ok();
        in_turn(calls / 4, ask, give_back)?;
        // And as many in line for one.
        let in_line = || -> Verdict {
            for _ in 0..calls / 4 / TASKS {
                let grant = acquire("awaited").granted()?;
                worker.release(&grant).ok()?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let tasks: Vec<_> = (0..TASKS).map(|_| scope.spawn(in_line)).collect();
            tasks
                .into_iter()
                .try_for_each(|task| task.join().expect("no panic"))
        })?;
        Ok(())
    };
    half()?;
    let (before, connections_before) = measure(&worker, &mut server);
    let opened = count(&mut server, "total_connections_received");
    half()?;
    let opened = count(&mut server, "total_connections_received") - opened;
    let (more, most) = (calls / 2, (calls / 4 / WAITS) as u64);
    ensure!(opened <= most, "{more} more, {opened} connections opened");
    let mut last = (before, connections_before);
    let settled = crate::limits::wait_for(ms(1500), || {
        last = measure(&worker, &mut server);
        let (after, connections) = last;
        (after.memory_kb <= before.memory_kb + MEMORY_KB
            && after.threads <= before.threads + THREADS
            && connections <= connections_before.max(CONNECTIONS))
        .then_some(())
    });
    let (after, connections) = last;
    ensure!(
        settled.is_some(),
        "after {} more locks and waits: memory {} -> {} MB, threads {} -> {}, connections {} -> {}",
        calls / 2,
        before.memory_kb / 1024,
        after.memory_kb / 1024,
        before.threads,
        after.threads,
        connections_before,
        connections
    );
    stage.agree(&site)?;
    stage.end(&site, &[&worker], LEASE)
}
