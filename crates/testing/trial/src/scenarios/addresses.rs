//! The address of the servers leads to another one: a virtual IP, a name, a proxy.

use crate::failure::Verdict;
use crate::limits::{ms, until};
use crate::site::Site;
use crate::stage::{LEASE, SEEN, Stage};
use crate::worker::{Call, Worker};
use testbed::{Expect, cmd};

/// How many wait connections to the old primary are idle when the address moves.
const IDLE: usize = 3;
/// Locks with nothing held when the address moves.
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
    for (key, wait) in waits(&worker, "before", IDLE, &old)? {
        old.give_back(&key);
        worker.release(&wait.granted()?).ok()?;
    }
    replicate(&old, &new)?;
    cmd!(new.server().connection(), "REPLICAOF", "NO", "ONE").okay();
    proxy.redirect(new.server().port());
    old.close_poller_of("held");

    // Calls go over the user's own pool, which leads to both now: only the token protects. A replica serves nobody, and nobody stays with it.
    let port = new.server().port();
    cmd!(old.server().connection(), "REPLICAOF", "127.0.0.1", port).okay();
    for (key, wait) in waits(&worker, "after", IDLE + 2, &new)? {
        new.give_back(&key);
        worker.release(&wait.granted()?).ok()?;
    }
    // Nor does a session without grants, whose connection the server leaves open.
    let acquire = worker.acquire("used").of(UNUSED).wait(ms(3000));
    worker.release(&acquire.granted()?).ok()?;
    free(&new, "used")?;
    worker.still_holds(&held, "though both servers have it")?;
    stage.end(&new, &[&worker], LEASE)
}

/// So many calls that wait, each for a lock that is held on this server.
fn waits(worker: &Worker, name: &str, count: usize, site: &Site) -> Verdict<Vec<(String, Call)>> {
    let wait = |number| {
        let key = format!("{name}-{number}");
        let call = site.in_vain(&worker.acquire(&key).wait(ms(20_000)))?;
        Ok((key, call))
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
    cmd!(to.server().connection(), "REPLICAOF", "127.0.0.1", port).okay();
    let is_linked = || {
        let info = cmd!(to.server().connection(), "INFO", "replication").text();
        info.contains("master_link_status:up")
    };
    until(ms(10_000), is_linked, "no link within 10 s")
}
