//! The network between client and server fails.

use crate::failure::{Verdict, ensure};
use crate::limits::{MARGIN, lateness, ms};
use crate::site::Site;
use crate::stage::{LEASE, Stage, silence};
use std::time::Instant;
use testbed::{Expect, Fault, Proxy, cmd};

/// The server receives everything, the client nothing.
pub(super) fn silent_replies(stage: &Stage) -> Verdict {
    silent(stage, Proxy::fall_silent)
}

/// Nobody receives anything.
pub(super) fn silent_network(stage: &Stage) -> Verdict {
    silent(stage, Proxy::swallow)
}

fn silent(stage: &Stage, fault: fn(&Proxy)) -> Verdict {
    let keep = ms(1000);
    // The longest silence that the server tolerates, until it judges it, and the lease that then runs out.
    let all_over = keep + ms(2000) + LEASE;
    let (site, proxy, worker) = stage.behind_proxy(Site::start())?;
    let acquire = |key: &str| worker.acquire(key).keep(keep);
    let (held, released) = (acquire("held").granted()?, acquire("released").granted()?);
    let busy = acquire("busy").granted()?;
    let in_line = acquire("busy").wait(ms(2500)).ask();
    site.until_waiting("busy", 1)?;
    worker.check(&busy)?; // an answer behind the place in line: that has arrived, too
    fault(&proxy);
    let begun = Instant::now();
    let calls = [
        (acquire("free").ask(), "unavailable"),
        (acquire("awaited").wait(ms(1500)).ask(), "unavailable"),
        // The time in line is over by the client's own clock.
        (in_line, "busy"),
    ];
    worker
        .release(&released)
        .refused_after(&["unavailable", "lost"])?;
    for (call, class) in &calls {
        call.refused(class)?;
    }
    worker.loses(&held, begun, silence(LEASE))?;
    worker.loses(&busy, begun, silence(LEASE))?;
    worker.no_longer_holds(&held)?;
    // A lock that was reported as lost is not renewed.
    stage.all_free(&site, all_over, "all was reported as lost")?;
    proxy.speak();
    worker.works("held", ms(3000))?;
    worker.works("free", ms(3000))?;
    let again = acquire("again").granted()?;
    worker.still_holds(&again, "once the network is back")?;
    stage.end(&site, &[&worker], LEASE)
}

/// Each connection ends without a sign: held locks are renewed on a new one, and waiting calls queue again, also where
/// nothing is held.
pub(super) fn forgotten(stage: &Stage) -> Verdict {
    let site = Site::start();
    let (proxy, outside) = site.behind_proxy();
    let workers = [stage.worker(&outside)?, stage.worker(&outside)?];
    let held = workers[0].acquire("held").granted()?;
    let mut waits = Vec::new();
    for (number, worker) in workers.iter().enumerate() {
        let key = format!("awaited-{number}");
        waits.push(site.in_vain(&worker.acquire(&key).wait(ms(30_000)))?);
    }
    proxy.forget();
    let begun = Instant::now();
    for number in 0..waits.len() {
        // It goes to a connection that is dead.
        site.give_back(&format!("awaited-{number}"));
    }
    for (worker, wait) in workers.iter().zip(&waits) {
        worker.release(&wait.granted()?).ok()?;
    }
    // The sign that does not come (a third of the lease by default), the reply to it, and the lease of the grant that
    // nobody has heard of.
    let limit = ms(10_000) / 3 + ms(1000) + LEASE + MARGIN;
    let took = begun.elapsed();
    let limit = limit + lateness(begun);
    ensure!(took <= limit, "it took {took:.1?}, not {limit:.1?}");
    workers[0].still_holds(&held, "with its connection")?;
    let all: Vec<_> = workers.iter().collect();
    stage.end(&site, &all, LEASE)
}

/// Half of a request arrives.
pub(super) fn resets_in_request(stage: &Stage) -> Verdict {
    resets(stage, Fault::ResetRequest)
}

/// The server has done what was asked, and the client gets no reply.
pub(super) fn resets_in_reply(stage: &Stage) -> Verdict {
    resets(stage, Fault::Reset)
}

fn resets(stage: &Stage, fault: Fault) -> Verdict {
    const ROUNDS: usize = 3;
    let site = Site::start();
    let mut server = site.server().connection();
    let (proxy, outside) = site.behind_proxy();
    let worker = stage.worker(&outside)?;
    let other = stage.worker(&site)?;
    let held = worker.acquire("held").granted()?;
    let met = |words: &str| -> Verdict {
        ensure!(proxy.pending() == 0, "no {words} met the fault");
        Ok(())
    };
    for round in 0..ROUNDS {
        let key = format!("free-{round}");
        proxy.inject(fault, "LOCK.ACQUIRE", 1);
        let grant = worker.acquire(&key).granted()?;
        met("LOCK.ACQUIRE")?;
        stage.agree(&site)?;
        let holds = cmd!(server, "LOCK.INFO", &key).lock_info().holds;
        ensure!(holds == 1, "a repeated acquire holds {key} {holds} times");
        proxy.inject(fault, "LOCK.RELEASE", 1);
        worker.release(&grant).ok()?;
        met("LOCK.RELEASE")?;
        stage.agree(&site)?;

        // A wait is reset when it is sent, or when its grant comes.
        let key = format!("awaited-{round}");
        let first = other.acquire(&key).granted()?;
        proxy.inject(fault, "LOCK.ACQUIRE QUEUE", 1);
        let wait = worker.acquire(&key).wait(ms(5000)).ask();
        site.until_waiting(&key, 1)?;
        other.release(&first).ok()?;
        let second = wait.granted()?;
        met("QUEUE")?;
        stage.agree(&site)?;
        worker.release(&second).ok()?;
        stage.agree(&site)?;
    }
    // The connection that keeps it was reset again and again.
    worker.still_holds(&held, "with its connection")?;
    stage.end(&site, &[&worker, &other], LEASE)
}
