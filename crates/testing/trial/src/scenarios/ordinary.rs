//! Nothing fails.

use crate::failure::{Verdict, ensure};
use crate::limits::{MARGIN, ms};
use crate::stage::{LEASE, Stage};
use crate::worker::{Mode, Worker};

/// Exclusive and shared locks, permits, waits.
pub(super) fn ordinary(stage: &Stage) -> Verdict {
    let (site, one) = stage.pair()?;
    let two = stage.worker(&site)?;

    one.release(&one.acquire("alone").granted()?).ok()?;
    stage.agree(&site)?;
    let first = one.acquire("alone").granted()?;
    stage.agree(&site)?;
    one.acquire("alone").refused("busy")?;
    two.acquire("alone").refused("busy")?;
    stage.agree(&site)?;
    let in_vain = two.acquire("alone").wait(ms(300)).ask();
    let (took, _) = in_vain.refused_after(&["busy"])?;
    ensure!(took >= ms(300), "a wait of 300 ms is over after {took:?}");
    stage.agree(&site)?;
    // In line, of both workers.
    let before = two.acquire("alone").wait(ms(10_000)).ask();
    site.until_waiting("alone", 1)?;
    let behind = one.acquire("alone").for_ever().ask();
    site.until_waiting("alone", 2)?;
    one.release(&first).ok()?;
    let second = before.granted()?;
    behind.is_pending()?;
    stage.agree(&site)?;
    two.release(&second).ok()?;
    let third = behind.granted()?;
    let rise = first.token < second.token && second.token < third.token;
    ensure!(rise, "tokens do not rise");
    one.release(&third).ok()?;
    stage.agree(&site)?;
    one.no_longer_holds(&third)?;

    let shared = |worker: &Worker| worker.acquire("shared").mode(Mode::Shared).granted();
    let readers = [shared(&one)?, shared(&one)?, shared(&two)?];
    two.acquire("shared").refused("busy")?;
    let writer = two.acquire("shared").wait(ms(5000)).ask();
    site.until_waiting("shared", 1)?;
    one.acquire("shared").mode(Mode::Shared).refused("busy")?;
    for (reader, worker) in readers.iter().zip([&one, &one, &two]) {
        writer.is_pending()?;
        worker.release(reader).ok()?;
    }
    writer.granted()?;

    let permit = || one.acquire("permits").mode(Mode::Limit(2));
    let permits = [permit().granted()?, permit().granted()?];
    let are_two = permits[0].owner != permits[1].owner;
    ensure!(are_two, "two permits have one owner");
    permit().refused("busy")?;
    let third = permit().wait(ms(5000)).ask();
    site.until_waiting("permits", 1)?;
    one.release(&permits[0]).ok()?;
    third.granted()?;
    stage.agree(&site)?;
    stage.end(&site, &[&one, &two], LEASE)
}

/// Locks of one owner.
pub(super) fn tasks(stage: &Stage) -> Verdict {
    let (site, worker) = stage.pair()?;
    let of = |key: &str, task: &'static str| worker.acquire(key).task(task).wait(ms(3000)).ask();

    let outer = of("again", "ann").granted()?;
    let inner = of("again", "ann").granted()?;
    let is_same = outer.owner == inner.owner && outer.token == inner.token;
    ensure!(is_same, "a re-entry is another grant");
    worker.release(&inner).ok()?;
    worker.still_holds(&outer, "with the end of a re-entry")?;
    worker.acquire("again").refused("busy")?;
    worker.release(&outer).ok()?;
    worker.acquire("again").granted()?;

    // Each of two has what the other wants.
    let (one, two) = (of("left", "ann").granted()?, of("right", "bob").granted()?);
    let waits = of("right", "ann");
    site.until_waiting("right", 1)?;
    let (took, _) = of("left", "bob").refused_after(&["deadlock"])?;
    let limit = ms(1000) + MARGIN;
    ensure!(took < limit, "a deadlock is reported after {took:?}");
    stage.agree(&site)?;
    worker.release(&two).ok()?;
    worker.release(&waits.granted()?).ok()?;
    worker.release(&one).ok()?;

    // Two that share cannot both have it alone.
    for task in ["ann", "bob"] {
        let both = worker.acquire("both").mode(Mode::Shared);
        both.task(task).granted()?;
    }
    of("both", "ann").refused("not-alone")?;
    stage.agree(&site)?;
    stage.end(&site, &[&worker], LEASE)
}
