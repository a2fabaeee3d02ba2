//! Several servers.

use crate::failure::{Verdict, ensure};
use crate::limits::{MARGIN, TOLD, lateness, ms, until};
use crate::site::Site;
use crate::stage::{LEASE, Stage, silence};
use std::thread;
use std::time::{Duration, Instant};
use testbed::{Builder, Cluster, Expect, Sentinels, cluster, cmd};

/// The primary is killed, and what it held is with its successor.
pub(super) fn failover(stage: &Stage) -> Verdict {
    let setup = Sentinels::builder(1, 1).down_after(ms(1000));
    let site = Site::sentinels(setup.start_with(Builder::own_process_group));
    let worker = stage.worker(&site)?;
    let lease = ms(15_000);
    let held = worker.acquire("held").lease(lease).granted()?;
    let in_line = worker.acquire("held").lease(lease).wait(ms(40_000)).ask();
    site.until_waiting("held", 1)?;
    {
        let mut all = site.guarded();
        let (primary, replica) = (all.primary(), 1 - all.primary());
        all.server(primary).wait_for_sync(all.server(replica));
        all.server_mut(primary).kill9();
        all.wait_for_primary_other_than(primary);
    }
    // Queued again with the new primary, and renewed there.
    let waits = || site.until_waiting("held", 1).is_ok();
    until(ms(10_000), waits, "no line with the new primary")?;
    worker.works("other", ms(5000))?;
    stage.agree(&site)?;
    worker.still_holds(&held, "with a failover")?;
    worker.release(&held).ok()?;
    worker.release(&in_line.granted()?).ok()?;
    stage.end(&site, &[&worker], lease)
}

fn three_nodes() -> Site {
    let settings = |it: Builder| {
        it.own_process_group()
            .config("cluster-require-full-coverage", "no")
    };
    Site::cluster(Cluster::start_with(3, 0, settings))
}

/// A key that a node serves.
fn key_at(site: &Site, node: usize) -> String {
    let nodes = site.nodes();
    let mut names = (0..).map(|number| format!("key-{number}"));
    let serves = |key: &String| nodes.serves(cluster::slot(key)) == node;
    names.find(serves).expect("a key for each node")
}

/// The time for checks beside each step of a move.
const BESIDE: Duration = ms(200);

/// A slot moves, with the lock in it and the call that waits for it. Checks of the lock are under way all the time: the old
/// node reports the key as deleted when it is carried, which is no loss.
pub(super) fn slot_move(stage: &Stage) -> Verdict {
    let site = three_nodes();
    let worker = stage.worker(&site)?;
    let lease = ms(5000);
    let (moved, stays) = (key_at(&site, 0), key_at(&site, 1));
    let held = worker.acquire(&moved).lease(lease).granted()?;
    let other = worker.acquire(&stays).lease(lease).granted()?;
    let in_line = worker.acquire(&moved).lease(lease).wait(ms(20_000)).ask();
    site.until_waiting(&moved, 1)?;
    let slot = cluster::slot(&moved);
    worker.holds_throughout(&held, "while its slot moves", || {
        let nodes = site.nodes();
        nodes.begin_move(slot, 0, 1);
        thread::sleep(BESIDE);
        nodes.carry_keys(slot, 0, 1);
        thread::sleep(BESIDE);
        nodes.end_move(slot, 0, 1);
        thread::sleep(BESIDE);
    })?;
    let waits = || site.until_waiting(&moved, 1).is_ok();
    until(ms(5000), waits, "no line with the new node")?;
    thread::sleep(lease + ms(200)); // renewed by the new node
    stage.agree(&site)?;
    for grant in [&held, &other] {
        worker.still_holds(grant, "with a slot that moved")?;
        worker.release(grant).ok()?;
    }
    worker.release(&in_line.granted()?).ok()?;
    worker.works(&moved, ms(1000))?;
    stage.end(&site, &[&worker], lease)
}

/// One node hangs for longer than a lease.
pub(super) fn hung_node(stage: &Stage) -> Verdict {
    let site = three_nodes();
    let worker = stage.worker(&site)?;
    let lease = ms(1500);
    let keys: Vec<_> = (0..3).map(|node| key_at(&site, node)).collect();
    let take = |key: &String| worker.acquire(key).lease(lease).granted();
    let held: Vec<_> = keys.iter().map(take).collect::<Verdict<_>>()?;
    site.nodes().node(0).signal("STOP");
    let begun = Instant::now();
    let same_node = worker.acquire(&format!("{{{}}}:free", keys[0])).ask();
    let mut longest = ms(0);
    while begun.elapsed() < ms(2600) {
        for key in &keys[1..] {
            let key = format!("{{{key}}}:free");
            let asked = Instant::now();
            let grant = worker.acquire(&key).lease(lease).granted()?;
            longest = longest.max(asked.elapsed());
            worker.release(&grant).ok()?;
        }
    }
    same_node.refused("unavailable")?;
    worker.loses(&held[0], begun, silence(lease))?;
    site.nodes().node(0).signal("CONT");
    let limit = MARGIN + lateness(begun);
    ensure!(longest < limit, "on a sound node it took {longest:.1?}");
    for grant in &held[1..] {
        worker.still_holds(grant, "on a sound node")?;
    }
    site.nodes().wait_until_whole();
    worker.works(&keys[0], ms(5000))?;
    stage.agree_within(&site, lease + MARGIN)?;
    // And then one is lost at a sound node, and told at once.
    let begun = Instant::now();
    cmd!(site.nodes().node(1).connection(), "DEL", &keys[1]).int();
    worker.loses(&held[1], begun, TOLD)?;
    stage.end(&site, &[&worker], LEASE)
}
