//! The address of the servers leads to another one: a virtual IP, a name, a proxy.

use crate::failure::{Verdict, ensure};
use crate::limits::{ms, wait_for};
use crate::site::{DRIVER, Site};
use crate::stage::{LEASE, SEEN, Stage};
use crate::worker::{Call, Worker};
use testbed::{Expect, cmd};

/// How many wait connections to the old primary are idle when the address moves.
const IDLE: usize = 3;
/// Locks that keep nothing when the address moves.
const UNUSED: &str = "unused";

/// New connections lead to the new primary, and those that are open to the old one, which for a while takes itself
/// for the primary, too.
pub(super) fn moved(stage: &Stage) -> Verdict {
    let (old, new) = (Site::start(), Site::start());
    let (proxy, outside) = old.behind_proxy();
    let worker = stage.worker(&outside)?;
    worker.open_as(UNUSED, &outside, None).ok()?;
    let used = worker.acquire("used").of(UNUSED).granted()?;
    worker.release(&used).ok()?;
    let held = worker.acquire("held").granted()?;
    for wait in waits(&worker, "before", IDLE, &[&old])? {
        wait.let_in();
        worker.release(&wait.call.granted()?).ok()?;
    }
    replicate(&old, &new)?;
    cmd!(new.server().connection(), "REPLICAOF", "NO", "ONE").okay();
    proxy.redirect(new.server().port());
    close_keeper_of(&old, "held");

    // On sessions all calls go over the user's own pool, which leads to both then: only the token protects.
    if !stage.on_sessions() {
        between(&worker, &old, &new)?;
    }

    // A replica serves nobody, and nobody stays with it.
    let port = new.server().port();
    cmd!(old.server().connection(), "REPLICAOF", "127.0.0.1", port).okay();
    for wait in waits(&worker, "after", IDLE + 2, &[&new])? {
        wait.let_in();
        worker.release(&wait.call.granted()?).ok()?;
    }
    // Nor does a keeper that keeps nothing, whose connection the server leaves open.
    let acquire = worker.acquire("used").of(UNUSED).wait(ms(3000));
    worker.release(&acquire.granted()?).ok()?;
    free(&new, "used")?;
    worker.holds(&held)?;
    ensure!(worker.check(&held)?, "what both servers have is lost");
    stage.end(&new, &[&worker], LEASE)
}

/// While both take themselves for the primary.
fn between(worker: &Worker, old: &Site, new: &Site) -> Verdict {
    // What was granted on one connection is not released on one that leads elsewhere.
    worker.works("alone", ms(3000))?;
    free(new, "alone")?;
    let waits_on_both = waits(worker, "meanwhile", IDLE + 2, &[new, old])?;
    let (on_new, on_old): (Vec<_>, Vec<_>) = waits_on_both.iter().partition(|wait| wait.place == 0);
    ensure!(!on_new.is_empty(), "no new connection was opened");
    on_new.iter().chain(&on_old).for_each(|wait| wait.let_in());
    let granted_by_old = on_old.iter().map(|wait| wait.call.granted());
    let granted_by_old = granted_by_old.collect::<Verdict<Vec<_>>>()?;
    for wait in on_new {
        worker.release(&wait.call.granted()?).ok()?;
        free(new, &wait.key)?;
    }
    for grant in granted_by_old {
        // Lost, or not: the token is what protects against this server.
        worker.release(&grant).answer()?;
    }
    Ok(())
}

/// A call that stands in line.
struct Wait<'a> {
    key: String,
    call: Call,
    /// On which of the servers, by its place among them.
    place: usize,
    site: &'a Site,
}

impl Wait<'_> {
    /// Gives the lock back for which it waits.
    fn let_in(&self) {
        let mut server = self.site.server().connection();
        cmd!(server, "LOCK.RELEASE", &self.key, DRIVER).int();
    }
}

/// So many calls that wait, each for a lock that is held on all of these servers. Each stands in line on one of them.
fn waits<'a>(
    worker: &Worker,
    name: &str,
    count: usize,
    sites: &[&'a Site],
) -> Verdict<Vec<Wait<'a>>> {
    let wait = |number| {
        let key = format!("{name}-{number}");
        for site in sites {
            let mut server = site.server().connection();
            cmd!(server, "LOCK.ACQUIRE", &key, DRIVER, "PX", 60_000).grant();
        }
        let call = worker.acquire(&key).wait(ms(20_000)).ask();
        let waits_at = |site: &Site| {
            let seen = site.look(std::slice::from_ref(&key));
            seen.is_some_and(|seen| !seen[0].waiters.is_empty())
        };
        let place = wait_for(ms(5000), || sites.iter().position(|site| waits_at(site)));
        let Some(place) = place else {
            return Err(format!("{key} is not waited for within 5 s").into());
        };
        let site = sites[place];
        Ok(Wait {
            key,
            call,
            place,
            site,
        })
    };
    (0..count).map(wait).collect()
}

/// Nobody holds it.
fn free(site: &Site, key: &str) -> Verdict {
    site.until_free(&[key.to_owned()], SEEN, "the release was answered")
}

/// The second server has what the first has.
fn replicate(from: &Site, to: &Site) -> Verdict {
    let port = from.server().port();
    let mut replica = to.server().connection();
    cmd!(replica, "REPLICAOF", "127.0.0.1", port).okay();
    let mut is_linked = || {
        let info = cmd!(replica, "INFO", "replication").text();
        info.contains("master_link_status:up").then_some(())
    };
    let linked = wait_for(ms(10_000), &mut is_linked);
    ensure!(linked.is_some(), "no link within 10 s");
    Ok(())
}

/// Ends the connection on which this server keeps that lock.
fn close_keeper_of(site: &Site, key: &str) {
    let keeper = site.keeper_of(key);
    let mut server = site.server().connection();
    cmd!(server, "CLIENT", "KILL", "ID", keeper).int();
}
