//! The stage of a scenario: workers of one language, servers of its own, and one ledger.

use crate::failure::{Verdict, ensure};
use crate::ledger::{Ledger, Shared, Slack};
use crate::limits::{MARGIN, REPLY, TOLD, ms};
use crate::site::Site;
use crate::worker::Worker;
use rand::TryRng;
use rand::rngs::SysRng;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use testbed::Proxy;

/// The lease of a lock for which nothing else is said.
pub(crate) const LEASE: Duration = ms(2000);
/// How soon a client reports a loss that no server reports. A try to poll that began after the lease has to fail, and one
/// that began before it may still be under way; a pause between them is a part of the margin.
pub(crate) fn silence(lease: Duration) -> Duration {
    lease + 2 * REPLY + MARGIN
}

/// How long a server takes at most to see that a client is gone, and to take out what has ended.
pub(crate) const SEEN: Duration = ms(300);

pub(crate) struct Stage {
    program: PathBuf,
    /// A sound server, on which every worker is warmed up.
    sound: Site,
    ledger: Shared,
    workers: AtomicUsize,
    is_long: bool,
    has_ended: AtomicBool,
}

impl Stage {
    pub(crate) fn new(program: &Path, sound: &Site, is_long: bool) -> Self {
        Self {
            program: program.to_owned(),
            sound: sound.clone(),
            ledger: Arc::new(Ledger::default()),
            workers: AtomicUsize::new(0),
            is_long,
            has_ended: AtomicBool::new(false),
        }
    }

    /// One number in the short form, another in the long one.
    pub(crate) fn count(&self, short: usize, long: usize) -> usize {
        if self.is_long { long } else { short }
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// A worker that has opened nothing. It has taken, awaited and given back a lock on another server: what a
    /// runtime loads or compiles at the first call is no matter of time limits.
    pub(crate) fn new_worker(&self) -> Verdict<Worker> {
        let index = self.workers.fetch_add(1, SeqCst);
        let worker = Worker::started(&self.program, index, &self.ledger)?;
        worker.warm_up(&self.sound)?;
        Ok(worker)
    }

    /// A worker that knows the servers.
    pub(crate) fn worker(&self, site: &Site) -> Verdict<Worker> {
        let worker = self.new_worker()?;
        worker.open(site)?;
        Ok(worker)
    }

    /// A server and a worker.
    pub(crate) fn pair(&self) -> Verdict<(Site, Worker)> {
        let site = Site::start();
        let worker = self.worker(&site)?;
        Ok((site, worker))
    }

    /// The same with a proxy between them.
    pub(crate) fn behind_proxy(&self, site: Site) -> Verdict<(Site, Proxy, Worker)> {
        let (proxy, outside) = site.behind_proxy();
        let worker = self.worker(&outside)?;
        Ok((site, proxy, worker))
    }

    /// From now on no owner holds or waits for a lock after it was notified of the end, and every loss is reported.
    pub(crate) fn agree(&self, site: &Site) -> Verdict {
        self.agree_within(site, Duration::ZERO)
    }

    /// The same where the server could not be reached: what is left over may last so long.
    pub(crate) fn agree_within(&self, site: &Site, leftover: Duration) -> Verdict {
        let untold = TOLD;
        self.ledger.agrees(site, Slack { leftover, untold })
    }

    /// The end of every scenario: nothing stays longer than a lease after its owner has gone.
    pub(crate) fn end(&self, site: &Site, workers: &[&Worker], lease: Duration) -> Verdict {
        for worker in workers {
            worker.nothing_overdue();
        }
        self.agree_within(site, lease + MARGIN)?;
        for worker in workers {
            worker.end()?;
        }
        self.all_free(site, lease, "the process had ended")?;
        self.has_ended.store(true, SeqCst);
        Ok(())
    }

    /// All is free a lease later.
    pub(crate) fn all_free(&self, site: &Site, lease: Duration, why: &str) -> Verdict {
        site.until_free(&self.ledger.keys(), lease + SEEN, why)
    }

    /// The notes of the meantime.
    pub(crate) fn judge_notes(&self) -> Verdict {
        self.ledger.judge()
    }

    /// That the scenario has come to its end.
    pub(crate) fn judge(&self) -> Verdict {
        let has_ended = self.has_ended.load(SeqCst);
        ensure!(has_ended, "the scenario has not looked at its end");
        Ok(())
    }
}

/// A random number below this one.
pub(crate) fn random(bound: u64) -> u64 {
    SysRng.try_next_u64().expect("the system's random bytes") % bound
}
