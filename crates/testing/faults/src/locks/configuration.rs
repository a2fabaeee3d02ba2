//! The configurations: which servers, what is done to them, and what must hold.

use super::deployment::{Alone, Deployment, Guarded, Loss, Pair, Sharded};
use super::fault::Fault;
use super::stage::Habits;
use history::Mode;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use std::time::Duration;
use testbed::{Builder, Server};

/// One way to run locks, and what is done to it.
pub(crate) struct Setup {
    pub(crate) name: &'static str,
    /// All of these must happen.
    pub(crate) faults: Vec<Fault>,
    /// What the history is held to.
    pub(crate) mode: Mode,
    /// Whether grants must get lost, may, or must not.
    pub(crate) losses: Losses,
    pub(crate) habits: Habits,
    /// How long clients work in one run.
    pub(crate) length: Duration,
    /// The pause between two faults, about.
    pub(crate) calm: Duration,
    pub(crate) start: Start,
}

impl Setup {
    /// Whether connections are cut, for which clients must come by the proxy.
    pub(crate) fn cuts(&self) -> bool {
        self.faults.contains(&Fault::CutRequest)
    }

    /// Whether keys must get lost for want of memory.
    pub(crate) fn evicts(&self) -> bool {
        let mut faults = self.faults.iter();
        faults.any(|fault| matches!(fault, Fault::Fill(policy) if *policy != "noeviction"))
    }
}

/// What is expected of the number of lost grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Losses {
    /// None, ever.
    Never,
    /// There may be some, or none.
    May,
    /// A run without any has not shown what it is for.
    Must,
}

/// Starts the servers; the reason where that cannot be done here.
type Start = fn(&mut StdRng) -> Result<Box<dyn Deployment>, String>;

/// A usual pause between two faults.
const CALM: Duration = Duration::from_millis(150);

/// How far clients raise tokens where nothing is lost: less than `lock.max-token-lead-ms`.
const RAISE: u64 = 3_000_000;

/// All of them.
pub(crate) fn all() -> Vec<Setup> {
    vec![
        aof_always(),
        aof_everysec(),
        rdb_only(),
        dying_waiters(),
        memory_full(),
        clock_steps(),
        failover(),
        sentinel(),
        sentinel_wait(),
        sentinel_hangs(),
        sentinel_min_replicas(),
        cluster_failover(),
        cluster_crash(),
        cluster_slots(),
    ]
}

/// What can be done to the clients of any server that stands alone.
fn against_clients() -> Vec<Fault> {
    let mut faults = vec![
        Fault::Stop,
        Fault::ClientKill,
        Fault::KillWhenGranted,
        Fault::CutRequest,
        Fault::CutReply,
        Fault::Pause,
        Fault::Save,
        Fault::Remove,
        Fault::Newcomer,
        Fault::Flush,
    ];
    let version = Server::version();
    if version.is_redis_from(7, 4) || version.is_valkey_from(8, 0) {
        faults.push(Fault::Unblock);
    }
    faults
}

fn with(mut faults: Vec<Fault>, more: &[Fault]) -> Vec<Fault> {
    faults.extend_from_slice(more);
    faults
}

fn aof(fsync: &str) -> Builder {
    Server::builder()
        .config("appendonly", "yes")
        .config("appendfsync", fsync)
}

fn aof_always() -> Setup {
    Setup {
        name: "aof-always",
        faults: with(
            against_clients(),
            &[Fault::Crash { loses: false }, Fault::Rewrite],
        ),
        mode: Mode::Strict,
        losses: Losses::Never,
        habits: Habits {
            raise: RAISE,
            ..Habits::default()
        },
        length: Duration::from_secs(5),
        calm: CALM,
        start: |random| {
            let preamble = ["yes", "no"].choose(random).expect("two");
            let settings = aof("always").config("aof-use-rdb-preamble", preamble);
            Ok(Box::new(Alone::start(settings)))
        },
    }
}

fn aof_everysec() -> Setup {
    Setup {
        name: "aof-everysec",
        faults: with(
            against_clients(),
            &[Fault::Crash { loses: true }, Fault::Rewrite],
        ),
        mode: Mode::Lossy,
        losses: Losses::May,
        habits: Habits::default(),
        length: Duration::from_secs(5),
        calm: CALM,
        start: |_| Ok(Box::new(Alone::start(aof("everysec")))),
    }
}

fn rdb_only() -> Setup {
    Setup {
        name: "rdb-only",
        faults: with(against_clients(), &[Fault::Crash { loses: true }]),
        mode: Mode::Lossy,
        losses: Losses::Must,
        habits: Habits::default(),
        length: Duration::from_secs(5),
        calm: CALM,
        start: |_| Ok(Box::new(Alone::start(Server::builder()))),
    }
}

/// Clients that die, in the worst of moments above all.
fn dying_waiters() -> Setup {
    let mut faults = against_clients();
    faults.retain(|fault| {
        matches!(
            fault,
            Fault::ClientKill | Fault::KillWhenGranted | Fault::Unblock | Fault::Newcomer
        )
    });
    Setup {
        name: "dying-waiters",
        faults,
        mode: Mode::Strict,
        losses: Losses::Never,
        habits: Habits {
            raise: RAISE,
            twins: true,
            ..Habits::default()
        },
        length: Duration::from_secs(4),
        calm: Duration::from_millis(40),
        start: |_| Ok(Box::new(Alone::start(Server::builder()))),
    }
}

fn memory_full() -> Setup {
    Setup {
        name: "memory-full",
        faults: vec![
            Fault::Fill("noeviction"),
            Fault::Fill("allkeys-lru"),
            Fault::Fill("allkeys-lfu"),
            Fault::Fill("allkeys-random"),
            Fault::Fill("volatile-lru"),
            Fault::Fill("volatile-lfu"),
            Fault::Fill("volatile-random"),
            Fault::Fill("volatile-ttl"),
        ],
        mode: Mode::Strict,
        losses: Losses::Never,
        habits: Habits {
            raise: RAISE,
            ..Habits::default()
        },
        length: Duration::from_secs(5),
        calm: CALM,
        start: |_| Ok(Box::new(Alone::start(Server::builder()))),
    }
}

fn clock_steps() -> Setup {
    Setup {
        name: "clock-steps",
        faults: vec![
            Fault::ClockForward,
            Fault::ClockBack,
            Fault::Crash { loses: false },
            Fault::ClientKill,
        ],
        mode: Mode::Strict,
        losses: Losses::Never,
        habits: Habits {
            raise: RAISE,
            ..Habits::default()
        },
        length: Duration::from_secs(5),
        calm: CALM,
        start: |_| {
            if Server::version().is_valkey_from(9, 0) {
                return Err("libfaketime reaches this server only now and then".to_owned());
            }
            Ok(Box::new(Alone::start_with_clock(aof("always"))?))
        },
    }
}

fn failover() -> Setup {
    Setup {
        name: "failover",
        faults: vec![
            Fault::HandOver,
            Fault::Pause,
            Fault::ClientKill,
            Fault::KillWhenGranted,
            Fault::Stop,
        ],
        mode: Mode::Strict,
        losses: Losses::Never,
        habits: Habits {
            raise: RAISE,
            ..Habits::default()
        },
        length: Duration::from_secs(5),
        calm: CALM,
        start: |random| {
            let appendonly = if random.random() { "yes" } else { "no" };
            let settings = Server::builder().config("appendonly", appendonly);
            Ok(Box::new(Pair::start(&settings)))
        },
    }
}

fn sentinel() -> Setup {
    Setup {
        name: "sentinel",
        faults: vec![Fault::LosePrimary(Loss::Killed), Fault::ClientKill],
        mode: Mode::Lossy,
        losses: Losses::Must,
        habits: Habits::default(),
        length: Duration::from_secs(8),
        calm: Duration::from_millis(1_500),
        start: |_| Ok(Box::new(Guarded::start(|settings| settings))),
    }
}

/// The same, with holders that trust a grant only when all replicas have it.
fn sentinel_wait() -> Setup {
    Setup {
        name: "sentinel-wait",
        losses: Losses::Never,
        habits: Habits {
            wait: true,
            ..Habits::default()
        },
        ..sentinel()
    }
}

/// A primary that hangs and comes back, and takes itself for the primary for a moment.
fn sentinel_hangs() -> Setup {
    Setup {
        name: "sentinel-hangs",
        faults: vec![Fault::LosePrimary(Loss::Hangs), Fault::ClientKill],
        mode: Mode::Split,
        losses: Losses::May,
        ..sentinel()
    }
}

/// The same, where a primary that has lost its replicas takes no writes.
fn sentinel_min_replicas() -> Setup {
    Setup {
        name: "sentinel-min-replicas",
        start: |_| {
            let careful = |settings: Builder| {
                settings
                    .config("min-replicas-to-write", "1")
                    .config("min-replicas-max-lag", "1")
            };
            Ok(Box::new(Guarded::start(careful)))
        },
        ..sentinel_hangs()
    }
}

fn cluster_failover() -> Setup {
    Setup {
        name: "cluster-failover",
        faults: vec![Fault::HandOver, Fault::Remove],
        mode: Mode::Strict,
        losses: Losses::Never,
        habits: Habits {
            raise: RAISE,
            ..Habits::default()
        },
        length: Duration::from_secs(6),
        calm: Duration::from_millis(300),
        start: |_| Ok(Box::new(Sharded::start(1, |settings| settings))),
    }
}

fn cluster_crash() -> Setup {
    Setup {
        name: "cluster-crash",
        faults: vec![Fault::LosePrimary(Loss::Killed)],
        mode: Mode::Lossy,
        losses: Losses::May,
        habits: Habits::default(),
        length: Duration::from_secs(8),
        calm: Duration::from_millis(300),
        start: |_| Ok(Box::new(Sharded::start(1, |settings| settings))),
    }
}

fn cluster_slots() -> Setup {
    let mut faults = vec![Fault::MoveSlot, Fault::Remove];
    if Server::version().is_valkey_from(9, 0) {
        faults.push(Fault::MoveSlotWhole);
    }
    Setup {
        name: "cluster-slots",
        faults,
        mode: Mode::Strict,
        losses: Losses::Never,
        // A lock that is free leaves no token behind when its slot moves: only the clocks of the
        // nodes keep its tokens rising, so none may be ahead of time.
        habits: Habits::default(),
        length: Duration::from_secs(6),
        calm: Duration::from_millis(300),
        start: |_| Ok(Box::new(Sharded::start(0, |settings| settings))),
    }
}
