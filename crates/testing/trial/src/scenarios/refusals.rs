//! The server answers, but not with a lock.

use super::count;
use crate::failure::{Verdict, ensure};
use crate::limits::{AT_ONCE, MARGIN, ms};
use crate::site::Site;
use crate::stage::{LEASE, Stage};
use crate::worker::{Answer, LOCKS, Worker};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};
use testbed::{Expect, Fault, Talk, cmd, eventually, post, run};

/// How many connections may be tried in two seconds by a client that cannot get in.
const KNOCKS: u64 = 20;

/// A password that is wrong, and none at all.
pub(super) fn wrong_password(stage: &Stage) -> Verdict {
    let site = Site::start();
    let mut server = site.server().connection();
    run(&mut server, "CONFIG SET requirepass secret").okay();
    let worker = stage.new_worker()?;
    for (locks, password) in [("wrong", Some("guess")), ("none", None)] {
        let before = count(&mut server, "total_connections_received");
        let begun = Instant::now();
        // Refused here already, or by the first call.
        let opened = worker.open_as(locks, &site, password).answer()?;
        for text in refusals(&worker, locks, opened)? {
            let text = text.to_lowercase();
            let tells = text.contains("pass") || text.contains("auth");
            ensure!(tells, "{locks} password: {text:?}");
        }
        thread::sleep(ms(2000).saturating_sub(begun.elapsed()));
        let knocks = count(&mut server, "total_connections_received") - before;
        ensure!(knocks <= KNOCKS, "{locks} password: {knocks} connections");
    }
    worker.open_as(LOCKS, &site, Some("secret")).ok()?;
    let held = worker.acquire("held").granted()?;
    run(&mut server, "CONFIG SET requirepass \"\"").value();
    run(&mut server, "ACL SETUSER default nopass").okay();
    worker.still_holds(&held, "with the right password")?;
    stage.end(&site, &[&worker], LEASE)
}

/// A server as it comes.
pub(super) fn missing_module(stage: &Stage) -> Verdict {
    let site = Site::start_with(testbed::Builder::without_module);
    let worker = stage.new_worker()?;
    let opened = worker.open_as(LOCKS, &site, None).answer()?;
    for text in refusals(&worker, LOCKS, opened)? {
        ensure!(text.contains("module"), "of the module: {text:?}");
    }
    stage.end(&site, &[&worker], LEASE)
}

/// The error of a client that is refused: when it is opened already, or by each call, with a wait and without.
fn refusals(worker: &Worker, locks: &'static str, opened: Answer) -> Verdict<Vec<String>> {
    match opened {
        Answer::Error { class, text } if class == "refused" => Ok(vec![text]),
        Answer::Ok(_) => [Duration::ZERO, ms(10_000)]
            .into_iter()
            .map(|wait| refused_at_once(worker, locks, wait))
            .collect(),
        other => Err(format!("open is answered with {other}, not refused").into()),
    }
}

fn refused_at_once(worker: &Worker, locks: &'static str, wait: Duration) -> Verdict<String> {
    let call = worker.acquire("k").of(locks).wait(wait).ask();
    let (took, text) = call.refused_after(&["refused"])?;
    ensure!(took < AT_ONCE + MARGIN, "refused after {took:.1?}");
    Ok(text)
}

/// The server takes no more clients for a while.
pub(super) fn full_maxclients(stage: &Stage) -> Verdict {
    let (site, worker) = stage.pair()?;
    let mut server = site.server().connection();
    let held = worker.acquire("held").granted()?;
    let newcomer = stage.worker(&site)?;
    site.take("taken");
    // No more than there are. (With 1, three quarters of it would leave no place in line.)
    let clients = count(&mut server, "connected_clients");
    run(&mut server, &format!("CONFIG SET maxclients {clients}")).okay();
    let before = count(&mut server, "rejected_connections");
    // The first polls, and has perhaps no connection for this call. The newcomer has none, or one by chance.
    let in_line = worker.acquire("taken").wait(ms(8000)).ask();
    let now = newcomer.acquire("free").ask().answer()?;
    let is_told = matches!(now.class(), None | Some("unavailable"));
    ensure!(is_told, "with maxclients full: {now}");
    thread::sleep(ms(2000));
    let knocks = count(&mut server, "rejected_connections") - before;
    ensure!(knocks <= 10 * KNOCKS, "{knocks} connections in two seconds");
    worker.holds(&held)?;
    run(&mut server, "CONFIG SET maxclients 10000").okay();
    site.until_waiting("taken", 1)?;
    site.give_back("taken");
    in_line.granted()?;
    newcomer.works("other", ms(3000))?;
    worker.still_holds(&held, "with maxclients full")?;
    stage.agree(&site)?;
    stage.end(&site, &[&worker, &newcomer], LEASE)
}

/// A script runs for longer than the server tolerates.
pub(super) fn busy_script(stage: &Stage) -> Verdict {
    let site = Site::start_with(|it| it.config("lua-time-limit", "100"));
    let (site, proxy, worker) = stage.behind_proxy(site)?;
    let lease = ms(4000);
    let mut server = site.server().connection();
    let mut script = site.server().connection();
    let acquire = |key: &str| worker.acquire(key).lease(lease);
    let (held, released) = (acquire("held").granted()?, acquire("released").granted()?);
    worker.still_holds(&held, "before the script")?;
    post!(script, "EVAL", "while true do end", 0);
    thread::sleep(ms(300)); // now the server answers BUSY
    let awaited = acquire("awaited").wait(ms(10_000)).ask();
    // Then the polling connection ends: the POLL on the next one is answered BUSY, too.
    proxy.inject(Fault::Reset, "LOCK.ACQUIRE free", 1);
    worker.acquire("free").refused("unavailable")?;
    proxy.inject(Fault::Reset, "LOCK.SESSION POLL", 1);
    eventually(|| proxy.pending() == 0, "a POLL to be reset");
    let release = worker.release(&released);
    thread::sleep(ms(600));
    run(&mut server, "SCRIPT KILL").okay();
    script.receive().expect_err("the script was killed");
    awaited.granted()?;
    let release = release.answer()?;
    let is_told = matches!(release.class(), None | Some("unavailable"));
    ensure!(is_told, "a release meanwhile: {release}");
    worker.works("other", ms(3000))?;
    thread::sleep(lease); // renewed again
    worker.still_holds(&held, "while the server is busy for less than a lease")?;
    worker.release(&held).ok()?;
    stage.agree_within(&site, lease)?;
    stage.end(&site, &[&worker], lease)
}

/// Too few replicas, and then a save that has failed: the server refuses to write, for a while.
pub(super) fn no_writes(stage: &Stage) -> Verdict {
    let (site, worker) = stage.pair()?;
    let lease = ms(8000);
    let mut server = site.server().connection();
    let held = worker.acquire("held").lease(lease).granted()?;
    // In the place of the file to be written.
    fs::create_dir(site.server().dir().join("dump.rdb")).expect("a folder");
    cmd!(server, "CONFIG", "SET", "save", "3600 1").okay();
    for (error, refuse, allow) in [
        (
            "NOREPLICAS",
            "CONFIG SET min-replicas-to-write 1",
            "min-replicas-to-write 0",
        ),
        ("MISCONF", "BGSAVE", "stop-writes-on-bgsave-error no"),
    ] {
        run(&mut server, refuse).value();
        let mut told = || cmd!(server, "SET", "any", "text").err();
        let refuses = || told().is_some_and(|told| told.code() == error);
        eventually(refuses, "the server to refuse");
        worker.acquire("now").refused("unavailable")?;
        let awaited = worker.acquire("awaited").wait(ms(10_000)).ask();
        thread::sleep(ms(300));
        awaited.is_pending()?;
        run(&mut server, &format!("CONFIG SET {allow}")).okay();
        worker.release(&awaited.granted()?).ok()?;
    }
    worker.still_holds(&held, "while the server does not write")?;
    worker.release(&held).ok()?;
    stage.agree(&site)?;
    stage.end(&site, &[&worker], lease)
}

/// The right to take locks is gone for a while.
pub(super) fn no_permission(stage: &Stage) -> Verdict {
    let (site, worker) = stage.pair()?;
    let lease = ms(3000);
    let mut server = site.server().connection();
    let held = worker.acquire("held").lease(lease).granted()?;
    let mut rights = |words: &str| run(&mut server, &format!("ACL SETUSER default {words}"));
    rights("-lock.acquire -lock.renew -lock.release").okay();
    for wait in [Duration::ZERO, ms(10_000)] {
        refused_at_once(&worker, LOCKS, wait)?;
    }
    // In that moment its connection ends, and it returns too early.
    site.close_poller_of("held");
    thread::sleep(ms(400));
    rights("+lock.acquire +lock.renew +lock.release").okay();
    worker.works("other", ms(3000))?;
    thread::sleep(lease + ms(500)); // renewed again: a right that returned within the lease costs no lock
    worker.still_holds(&held, "with a right that was missing for less than a lease")?;
    worker.release(&held).ok()?;
    stage.agree(&site)?;
    stage.end(&site, &[&worker], lease)
}
