//! The server hangs, is killed, returns.

use crate::failure::{Verdict, ensure};
use crate::limits::{MARGIN, ms};
use crate::site::Site;
use crate::stage::{LEASE, Stage, silence};
use crate::worker::Worker;
use std::thread;
use std::time::Instant;

/// Hangs for less than a lease: nothing is lost.
pub(super) fn hung_shortly(stage: &Stage) -> Verdict {
    let (site, worker) = stage.pair()?;
    let lease = ms(5000);
    let acquire = |key: &str| worker.acquire(key).lease(lease);
    let held = acquire("held").granted()?;
    let in_line = acquire("held").wait(ms(15_000)).ask();
    site.until_waiting("held", 1)?;
    // Not what is left of a first lease.
    worker.still_holds(&held, "before the server hangs")?;
    site.server().signal("STOP");
    let begun = Instant::now();
    acquire("free").refused("unavailable")?;
    thread::sleep(ms(1700).saturating_sub(begun.elapsed()));
    site.server().signal("CONT");
    worker.works("other", ms(3000))?;
    stage.agree_within(&site, lease + MARGIN)?;
    worker.still_holds(&held, "while the server hangs for less than a lease")?;
    worker.release(&held).ok()?;
    worker.release(&in_line.granted()?).ok()?;
    stage.end(&site, &[&worker], lease)
}

/// Hangs for longer: what was held is reported as lost while it does.
pub(super) fn hung_long(stage: &Stage) -> Verdict {
    let (site, worker) = stage.pair()?;
    let lease = ms(1000);
    let acquire = |key: &str| worker.acquire(key).lease(lease);
    let (held, released) = (acquire("held").granted()?, acquire("released").granted()?);
    let in_line = site.in_vain(&acquire("taken").wait(ms(20_000)))?;
    site.server().signal("STOP");
    let begun = Instant::now();
    unreachable(&worker, &released, &held, silence(lease))?;
    thread::sleep(ms(3000).saturating_sub(begun.elapsed()));
    site.server().signal("CONT");
    worker.works("held", ms(3000))?;
    stage.agree_within(&site, lease + MARGIN)?;
    in_line.is_pending()?;
    site.give_back("taken");
    in_line.granted()?;
    stage.end(&site, &[&worker], lease)
}

/// Is gone for good.
pub(super) fn killed(stage: &Stage) -> Verdict {
    let (site, worker) = stage.pair()?;
    let (held, released) = (
        worker.acquire("held").granted()?,
        worker.acquire("released").granted()?,
    );
    let in_line = worker.acquire("held").wait(ms(3000)).ask();
    site.until_waiting("held", 1)?;
    // A later call is answered, so the reply that names the place has left the server.
    let is_held = worker.check(&held)?;
    ensure!(is_held, "a check says that a held lock is lost");
    site.server().kill9();
    unreachable(&worker, &released, &held, silence(LEASE))?;
    // The time in line is over by the client's own clock.
    in_line.refused("busy")?;
    worker.no_longer_holds(&held)?;
    worker.close("a").answer()?;
    // The port is another's to take, so it is the same server that returns, with nothing.
    site.server().restart();
    stage.end(&site, &[&worker], LEASE)
}

/// Every call is answered in its time, and what is held is lost by then.
fn unreachable(
    worker: &Worker,
    released: &crate::ledger::Grant,
    held: &crate::ledger::Grant,
    silence: std::time::Duration,
) -> Verdict {
    let begun = Instant::now();
    let calls = [
        worker.acquire("free").ask(),
        worker.acquire("awaited").wait(ms(1200)).ask(),
    ];
    let release = worker.release(released);
    worker.loses(held, begun, silence)?;
    for call in calls {
        call.refused("unavailable")?;
    }
    release.refused_after(&["unavailable", "lost"])?;
    Ok(())
}

/// Returns with all that it had: nothing is lost.
pub(super) fn restart_with_data(stage: &Stage) -> Verdict {
    let site = Site::start_with(|it| {
        it.config("appendonly", "yes")
            .config("appendfsync", "always")
    });
    let worker = stage.worker(&site)?;
    let lease = ms(5000);
    let acquire = |number| worker.acquire(&format!("held-{number}")).lease(lease);
    let held = (0..5).map(|number| acquire(number).granted());
    let held: Vec<_> = held.collect::<Verdict<_>>()?;
    let in_line = acquire(0).wait(ms(20_000)).ask();
    site.until_waiting("held-0", 1)?;
    again(&site);
    site.until_waiting("held-0", 1)?;
    // For longer than a lease: it is renewed again.
    thread::sleep(lease + ms(200));
    stage.agree(&site)?;
    for grant in &held {
        worker.still_holds(grant, "with a restart")?;
        worker.release(grant).ok()?;
    }
    worker.release(&in_line.granted()?).ok()?;
    stage.end(&site, &[&worker], lease)
}

/// Returns with nothing: all is lost, and told.
pub(super) fn restart_without_data(stage: &Stage) -> Verdict {
    let (site, worker) = stage.pair()?;
    let lease = ms(8000);
    let held = worker.acquire("held").lease(lease).granted()?;
    let begun = Instant::now();
    again(&site);
    // As soon as the client is back, and not at the end of the lease.
    worker.loses(&held, begun, ms(1500) + MARGIN)?;
    worker.no_longer_holds(&held)?;
    worker.acquire("held").granted()?;
    worker.release(&held).refused("lost")?;
    stage.agree(&site)?;
    stage.end(&site, &[&worker], LEASE)
}

fn again(site: &Site) {
    let mut server = site.server();
    server.kill9();
    server.restart();
}
