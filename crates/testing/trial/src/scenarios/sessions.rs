//! Sessions: their polling connection, their end, and the calls that wait in them.

use crate::failure::{Verdict, ensure};
use crate::limits::{MARGIN, TOLD, lateness, ms, until};
use crate::site::Site;
use crate::stage::{LEASE, SEEN, Stage};
use crate::worker::{Answer, Call, Worker};
use std::thread;
use std::time::{Duration, Instant};
use testbed::{Expect, Fault, cmd};

const TAKEN: &str = "taken";
const WAIT: Duration = ms(30_000);
/// A program is not passed over before its last reply is so old.
const AWAY: Duration = ms(1000);

/// So many calls wait for the driver's lock, of the workers in turn.
fn in_line<'w>(
    site: &Site,
    workers: [&'w Worker; 2],
    (count, lease): (usize, Duration),
) -> Verdict<Vec<(&'w Worker, Call)>> {
    let mut calls = Vec::new();
    for number in 0..count {
        let worker = workers[number % 2];
        calls.push((worker, worker.acquire(TAKEN).lease(lease).wait(WAIT).ask()));
        site.until_waiting(TAKEN, number + 1)?;
    }
    Ok(calls)
}

/// They get the lock one after the other, as they came.
fn served_in_order(calls: &[(&Worker, Call)]) -> Verdict {
    for (number, (worker, call)) in calls.iter().enumerate() {
        let grant = call.granted()?;
        for (_, behind) in &calls[number + 1..] {
            behind.is_pending()?;
        }
        worker.release(&grant).ok()?;
    }
    Ok(())
}

/// Every session is polled, by a connection that is not one of these.
fn until_polled(site: &Site, not_by: &[i64]) -> Verdict {
    let is_polled = || {
        let sessions = site.sessions();
        let mut clients = sessions.iter().map(|(_, client)| client);
        clients.all(|it| *it != 0 && !not_by.contains(it))
    };
    let limit = LEASE / 3 + ms(1000) + MARGIN;
    until(limit, is_polled, "a session is not polled again")
}

/// No program is passed over any more.
fn until_there(site: &Site) -> Verdict {
    let is_there = || {
        let sessions = cmd!(site.server().connection(), "LOCK.SESSION", "LIST").items();
        let mut sessions = sessions.into_iter().map(|it| it.fields());
        sessions.all(|session| {
            let number = |name: &str| session[name].clone().int();
            let idle = u64::try_from(number("idle-ms")).expect("a time");
            number("client-id") != 0 && ms(idle) < AWAY
        })
    };
    let limit = ms(2000) + MARGIN;
    until(limit, is_there, "a program does not poll again")
}

fn ids(site: &Site) -> Vec<i64> {
    site.sessions().iter().map(|(id, _)| *id).collect()
}

/// The polling connections are killed, again and again.
pub(super) fn poll_cut(stage: &Stage) -> Verdict {
    let (site, one) = stage.pair()?;
    let two = stage.worker(&site)?;
    let held = one.acquire("held").granted()?;
    site.take(TAKEN);
    let calls = in_line(&site, [&one, &two], (6, LEASE))?;
    let before = ids(&site);
    for _ in 0..stage.count(3, 20) {
        let clients: Vec<_> = site.sessions().iter().map(|(_, client)| *client).collect();
        for client in &clients {
            let mut server = site.server().connection();
            cmd!(server, "CLIENT", "KILL", "ID", *client).int();
        }
        until_polled(&site, &clients)?;
    }
    ensure!(ids(&site) == before, "a session ended with its connection");
    site.give_back(TAKEN);
    served_in_order(&calls)?;
    one.still_holds(&held, "with the polling connection")?;
    stage.end(&site, &[&one, &two], LEASE)
}

/// Another connection polls the sessions once, and leaves what it was told to the program.
pub(super) fn poll_taken_over(stage: &Stage) -> Verdict {
    let (site, one) = stage.pair()?;
    let two = stage.worker(&site)?;
    let (held, deleted) = (
        one.acquire("held").granted()?,
        one.acquire("deleted").granted()?,
    );
    site.take(TAKEN);
    let calls = in_line(&site, [&one, &two], (4, LEASE))?;
    // A client with a session for each lock ends that of a lost one.
    let lost = Some(site.session_of("deleted")).filter(|it| *it != site.session_of("held"));
    let others = || ids(&site).into_iter().filter(|id| Some(*id) != lost);
    let before: Vec<_> = others().collect();
    let (all, mut thief) = (ids(&site), site.server().connection());
    let begun = Instant::now();
    cmd!(site.server().connection(), "DEL", "deleted").int();
    for id in all {
        let polled = cmd!(thief, "LOCK.SESSION", "POLL", id).reply();
        ensure!(polled.is_ok() || Some(id) == lost, "{polled:?}");
    }
    let thief_id = cmd!(thief, "CLIENT", "ID").int();
    until_polled(&site, &[thief_id])?;
    one.loses(&deleted, begun, TOLD + MARGIN)?;
    ensure!(others().eq(before), "a session ended with its connection");
    site.give_back(TAKEN);
    served_in_order(&calls)?;
    one.still_holds(&held, "when another connection polled")?;
    stage.end(&site, &[&one, &two], LEASE)
}

/// The reply to a POLL gets lost, with the events in it, and nothing tells of that.
pub(super) fn poll_silent(stage: &Stage) -> Verdict {
    let (site, proxy, worker) = stage.behind_proxy(Site::start())?;
    let held = worker.acquire("held").granted()?;
    let deleted = worker.acquire("deleted").granted()?;
    let wait = site.in_vain(&worker.acquire(TAKEN).wait(WAIT))?;
    // The reply is overdue after a third of the lease and a reply's time. It is found then, and answered again.
    let limit = LEASE / 3 + ms(1000) + TOLD + MARGIN;
    let lose_reply = || -> Verdict {
        proxy.inject(Fault::Keep, "LOCK.SESSION POLL", 1);
        until(LEASE, || proxy.pending() == 0, "no POLL within a lease")
    };
    lose_reply()?;
    let begun = Instant::now();
    cmd!(site.server().connection(), "DEL", "deleted").int();
    worker.loses(&deleted, begun, limit)?;
    lose_reply()?;
    let begun = Instant::now();
    site.give_back(TAKEN);
    let granted = wait.granted()?;
    let (took, limit) = (begun.elapsed(), limit + lateness(begun));
    ensure!(took <= limit, "a grant is reported after {took:.1?}");
    worker.release(&granted).ok()?;
    worker.still_holds(&held, "with the reply to a POLL")?;
    stage.end(&site, &[&worker], LEASE)
}

/// The program is frozen until its session has ended, and not for as long as its leases.
pub(super) fn silent(stage: &Stage) -> Verdict {
    let (site, worker) = stage.pair()?;
    let (lease, keep) = (ms(12_000), ms(1000));
    let acquire = |key: &str| worker.acquire(key).lease(lease).keep(keep);
    let held = acquire("held").granted()?;
    let wait = site.in_vain(&acquire(TAKEN).wait(WAIT))?;
    let before = ids(&site);
    worker.freeze();
    // The POLL that waits, the silence, and until that is judged.
    let limit = lease / 3 + keep + ms(2000) + MARGIN;
    let has_ended = || ids(&site).is_empty();
    let ended = until(limit, has_ended, "the session of a frozen program stays");
    worker.thaw();
    ended?;
    site.until_waiting(TAKEN, 1)?;
    let has_moved = || {
        let after = ids(&site);
        !after.is_empty() && after != before && site.poller_of("held") != 0
    };
    let moved = until(ms(2000), has_moved, "the grant is in no new session");
    worker.holds(&held)?;
    moved?;
    site.give_back(TAKEN);
    worker.release(&wait.granted()?).ok()?;
    worker.still_holds(&held, "with its session")?;
    worker.release(&held).ok()?;
    stage.end(&site, &[&worker], lease)
}

/// An operator ends the sessions, with all that they hold.
pub(super) fn killed(stage: &Stage) -> Verdict {
    let (site, worker) = stage.pair()?;
    let held = worker.acquire("held").granted()?;
    let wait = site.in_vain(&worker.acquire(TAKEN).wait(WAIT))?;
    let begun = Instant::now();
    for id in ids(&site) {
        cmd!(site.server().connection(), "LOCK.SESSION", "KILL", id).int();
    }
    worker.loses(&held, begun, TOLD + MARGIN)?;
    worker.no_longer_holds(&held)?;
    site.until_waiting(TAKEN, 1)?;
    site.give_back(TAKEN);
    worker.release(&wait.granted()?).ok()?;
    worker.works("held", ms(1000))?;
    stage.agree(&site)?;
    stage.end(&site, &[&worker], LEASE)
}

/// The server stalls for longer than a reply may take, and each program has another call to make meanwhile.
pub(super) fn stall_order(stage: &Stage) -> Verdict {
    let (site, one) = stage.pair()?;
    let two = stage.worker(&site)?;
    let lease = ms(10_000);
    let held = one.acquire("held").lease(lease).granted()?;
    site.take(TAKEN);
    let calls = in_line(&site, [&one, &two], (stage.count(20, 200), lease))?;
    site.server().signal("STOP");
    let begun = Instant::now();
    for call in [&one, &two].map(|it| it.acquire("other").lease(lease).ask()) {
        call.refused("unavailable")?;
    }
    thread::sleep(ms(2500).saturating_sub(begun.elapsed()));
    site.server().signal("CONT");
    one.works("again", ms(3000))?;
    two.works("again", ms(3000))?;
    site.until_waiting(TAKEN, calls.len())?;
    until_there(&site)?;
    site.give_back(TAKEN);
    served_in_order(&calls)?;
    one.still_holds(&held, "while the server stalls for less than a lease")?;
    one.release(&held).ok()?;
    stage.end(&site, &[&one, &two], lease)
}

/// The first in line is frozen, for less than its session's timeout.
pub(super) fn frozen_waiter(stage: &Stage) -> Verdict {
    let (site, one) = stage.pair()?;
    let two = stage.worker(&site)?;
    site.take(TAKEN);
    let calls = in_line(&site, [&one, &two], (2, LEASE))?;
    one.freeze();
    thread::sleep(LEASE / 3 + AWAY + SEEN); // its last POLL, and until it is passed over
    site.give_back(TAKEN);
    let begun = Instant::now();
    let granted = calls[1].1.granted();
    let took = begun.elapsed();
    one.thaw();
    let granted = granted?;
    let most = SEEN + MARGIN;
    ensure!(took < most, "behind a frozen program {took:.1?}");
    let behind = two.acquire(TAKEN).wait(WAIT).ask();
    site.until_waiting(TAKEN, 2)?;
    until_there(&site)?; // until then the lock goes to the one behind it
    two.release(&granted).ok()?;
    let granted = calls[0].1.granted()?;
    behind.is_pending()?; // it has kept its place
    one.release(&granted).ok()?;
    two.release(&behind.granted()?).ok()?;
    stage.end(&site, &[&one, &two], LEASE)
}

/// A request is on its way for longer than the program waits for it. Then it arrives, and the server grants it.
pub(super) fn strays(stage: &Stage) -> Verdict {
    let (site, proxy, worker) = stage.behind_proxy(Site::start())?;
    let held = worker.acquire("held").granted()?;
    proxy.hold_back("LOCK.ACQUIRE");
    worker.acquire("stray").refused("unavailable")?;
    thread::sleep(LEASE / 3 + ms(200)); // its cancel has arrived, if only before the next POLL
    proxy.let_go();
    site.until_held("stray", ms(1000))?;
    // A whole lease of replies that count it, a POLL on either side, and the release.
    let limit = LEASE + 2 * LEASE / 3 + MARGIN;
    site.until_free(&["stray".to_owned()], limit, "it was granted")?;
    worker.still_holds(&held, "with a stray grant")?;
    stage.end(&site, &[&worker], LEASE)
}

/// The reply that names a grant is slower than the event that says it is lost.
pub(super) fn late_loss(stage: &Stage) -> Verdict {
    let (site, proxy, worker) = stage.behind_proxy(Site::start())?;
    let held = worker.acquire("held").granted()?;
    for round in 0..stage.count(5, 50) {
        let key = format!("lost-{round}");
        proxy.inject(Fault::Delay(300), "LOCK.ACQUIRE", 1);
        let call = worker.acquire(&key).ask();
        site.until_held(&key, ms(1000))?;
        cmd!(site.server().connection(), "DEL", &key).int();
        call.is_pending()?;
        // The loss was reported before the reply: the program asks again, or tells it.
        if let Answer::Grant(grant) = call.answer()? {
            let is_held = worker.check(&grant)?;
            ensure!(is_held, "{key} was reported as lost before");
            stage.agree(&site)?;
            worker.release(&grant).ok()?;
        }
    }
    worker.still_holds(&held, "with another")?;
    stage.end(&site, &[&worker], LEASE)
}
