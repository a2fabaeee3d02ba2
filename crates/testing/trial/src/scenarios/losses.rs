//! Locks are taken away.

use crate::failure::{Verdict, ensure};
use crate::limits::{MARGIN, TOLD, ms};
use crate::stage::{LEASE, Stage};
use std::time::Instant;
use testbed::{Expect, cmd};

/// `SET` over a lock.
pub(super) fn overwritten(stage: &Stage) -> Verdict {
    let (site, worker) = stage.pair()?;
    let mut server = site.server().connection();
    let (held, other) = (
        worker.acquire("held").granted()?,
        worker.acquire("other").granted()?,
    );
    let in_line = worker.acquire("held").wait(ms(10_000)).ask();
    site.until_waiting("held", 1)?;
    let begun = Instant::now();
    cmd!(server, "SET", "held", "text").okay();
    worker.loses(&held, begun, TOLD)?;
    in_line.refused("misuse")?;
    worker.acquire("held").refused("misuse")?;
    worker.no_longer_holds(&held)?;
    worker.release(&held).refused("lost")?;
    // It shared a connection with the other.
    worker.still_holds(&other, "with another lock")?;
    // A lock with a fixed lease is reported as lost by its release.
    let fixed = worker.acquire("fixed").fixed().granted()?;
    cmd!(server, "SET", "fixed", "text").okay();
    worker.release(&fixed).refused("lost")?;
    stage.agree(&site)?;
    cmd!(server, "DEL", "held").int();
    worker.works("held", ms(1000))?;
    stage.end(&site, &[&worker], LEASE)
}

/// `DEL`, as an administrator's force-unlock.
pub(super) fn deleted(stage: &Stage) -> Verdict {
    let (site, worker) = stage.pair()?;
    let two = stage.worker(&site)?;
    let mut server = site.server().connection();
    let others: Vec<_> = (0..20)
        .map(|number| worker.acquire(&format!("other-{number}")).granted())
        .collect::<Verdict<_>>()?;
    for round in 0..stage.count(15, 50) {
        let key = format!("held-{round}");
        let held = worker.acquire(&key).granted()?;
        let next = two.acquire(&key).wait(ms(10_000)).ask();
        site.until_waiting(&key, 1)?;
        let begun = Instant::now();
        cmd!(server, "DEL", &key).int();
        worker.loses(&held, begun, TOLD)?;
        let next = next.granted()?;
        ensure!(held.token < next.token, "tokens do not rise");
        worker.release(&held).refused("lost")?;
        stage.agree(&site)?;
        two.release(&next).ok()?;
    }
    // Two at once.
    let begun = Instant::now();
    cmd!(server, "DEL", "other-0", "other-1").int();
    for lost in &others[..2] {
        worker.loses(lost, begun, TOLD)?;
    }
    for held in &others[2..] {
        worker.still_holds(held, "with another lock")?;
    }
    stage.agree(&site)?;
    stage.end(&site, &[&worker, &two], LEASE)
}

/// A fixed lease: it ends by itself, and the client says so.
pub(super) fn fixed_lease(stage: &Stage) -> Verdict {
    let (site, worker) = stage.pair()?;
    let lease = ms(1200);
    let acquire = || worker.acquire("held").fixed().lease(lease);
    let held = acquire().granted()?;
    let begun = Instant::now(); // not before: a program that has just started takes its time to connect
    let next = acquire().wait(ms(5000)).ask();
    worker.still_holds(&held, "before its fixed lease is over")?;
    worker.loses(&held, begun, lease + MARGIN)?;
    let next = next.granted()?;
    worker.still_holds(&next, "though it was waited for")?;
    worker.no_longer_holds(&held)?;
    worker.release(&next).ok()?;
    stage.agree(&site)?;
    stage.end(&site, &[&worker], lease)
}
