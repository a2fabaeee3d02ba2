//! The client's process ends, forks, or closes.

use crate::failure::{Failure, Verdict, ensure};
use crate::limits::{MARGIN, lateness, ms, until};
use crate::site::Site;
use crate::stage::{LEASE, SEEN, Stage, random};
use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;
use testbed::{Expect, Signal, cmd};

/// `kill -9`: the lock is free a lease later, not before and not much after.
pub(super) fn killed_worker(stage: &Stage) -> Verdict {
    let (site, worker) = stage.pair()?;
    let heir = stage.worker(&site)?;
    let held = worker.acquire("held").granted()?;
    let waits = worker.acquire("held").for_ever().ask();
    site.until_waiting("held", 1)?;
    thread::sleep(LEASE); // it is renewed by now
    worker.holds(&held)?;
    let next = heir.acquire("held").wait(ms(10_000)).ask();
    site.until_waiting("held", 2)?;
    let begun = Instant::now();
    worker.kill()?;
    let next_grant = next.granted()?; // past the dead one's call
    let took = begun.elapsed();
    // It was renewed when a third had passed, or less.
    let is_late = took + ms(100) >= LEASE * 2 / 3;
    ensure!(is_late, "free already after {took:.1?}");
    let most = LEASE + MARGIN + lateness(begun);
    ensure!(took < most, "free only after {took:.1?}");
    drop(waits);
    heir.release(&next_grant).ok()?;
    stage.end(&site, &[&heir], LEASE)
}

/// SIGTERM and SIGINT, while locks are taken, waited for, and given back.
pub(super) fn signals(stage: &Stage) -> Verdict {
    let site = Site::start();
    let rounds = stage.count(20, 500);
    let next = AtomicUsize::new(0);
    let play = || -> Verdict {
        loop {
            let round = next.fetch_add(1, SeqCst);
            if round >= rounds {
                return Ok(());
            }
            let worker = stage.worker(&site)?;
            let key = |of: &str| format!("{of}-{round}");
            let lease = ms(1000);
            let acquire = |of: &str| worker.acquire(&key(of)).lease(lease);
            let moment = Instant::now() + ms(random(60));
            let mut calls = vec![acquire("held").ask()];
            let mut releases = Vec::new();
            while Instant::now() < moment {
                calls.push(acquire("held").wait(ms(5000)).ask());
                calls.push(acquire("other").wait(ms(5000)).ask());
                thread::sleep(ms(3));
                for grant in stage.ledger().held() {
                    if grant.key == key("held") || grant.key == key("other") {
                        releases.push(worker.release(&grant));
                    }
                }
            }
            worker.signal([Signal::TERM, Signal::INT][round % 2]);
            // One that takes the signal as a word to end may do so at the end of its input.
            thread::sleep(ms(100));
            worker.end()?;
            site.until_free(&[key("held"), key("other")], lease + SEEN, "a signal")?;
        }
    };
    thread::scope(|scope| {
        let players: Vec<_> = (0..3).map(|_| scope.spawn(play)).collect();
        let panicked = |it: Box<dyn Any + Send>| Err(Failure::from_panic(it.as_ref()));
        let mut played = players.into_iter().map(ScopedJoinHandle::join);
        played.try_for_each(|it| it.unwrap_or_else(panicked))
    })?;
    stage.end(&site, &[], LEASE)
}

/// A child has the parent's memory, but not its locks.
pub(super) fn fork(stage: &Stage) -> Verdict {
    let (site, worker) = stage.pair()?;
    let held = worker.acquire("held").granted()?;
    let in_line = worker.acquire("held").wait(ms(20_000)).ask();
    site.until_waiting("held", 1)?;
    let polling = || site.poller_of("held");
    let before = polling();
    for _ in 0..stage.count(3, 20) {
        worker.fork()?;
        worker.still_holds(&held, "by a fork")?;
    }
    ensure!(polling() == before, "a fork has cost the connection");
    site.until_waiting("held", 1)?;
    // The locks that a child left behind are free a lease later.
    let alone = || cmd!(site.server().connection(), "DBSIZE").int() == 1;
    until(ms(10_000) + MARGIN, alone, "a child's lock stays")?;
    worker.release(&held).ok()?;
    worker.release(&in_line.granted()?).ok()?;
    stage.agree(&site)?;
    stage.end(&site, &[&worker], LEASE)
}

/// `close` gives back all locks and calls off all waits; other `Locks` go on.
pub(super) fn closed(stage: &Stage) -> Verdict {
    let site = Site::start();
    let worker = stage.new_worker()?;
    worker.open_as("b", &site, None).ok()?;
    let stays = worker.acquire("stays").of("b").granted()?;
    let connections = || {
        let clients = cmd!(site.server().connection(), "CLIENT", "LIST").text();
        let names = clients
            .split_whitespace()
            .filter(|word| word.starts_with("name=lock-"));
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let before = connections();
    worker.open(&site)?;
    let held = worker.acquire("held").granted()?;
    let waits = [
        worker.acquire("stays").for_ever().ask(),
        worker.acquire("held").wait(ms(20_000)).ask(),
    ];
    site.until_waiting("stays", 1)?;
    site.until_waiting("held", 1)?;
    worker.close("a").ok()?;
    for wait in &waits {
        wait.refused_after(&["misuse", "cancelled", "unavailable"])?;
    }
    stage.agree(&site)?;
    worker.no_longer_holds(&held)?;
    worker.acquire("late").refused("misuse")?;
    worker.still_holds(&stays, "with another Locks")?;
    let ended = || connections().len() <= before.len();
    until(ms(2000), ended, "connections stay open after the close")?;
    worker.close("a").answer()?;
    stage.end(&site, &[&worker], LEASE)
}
