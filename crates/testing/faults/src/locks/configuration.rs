//! The configurations: which servers, what is done to them, and what must hold.

use super::deployment::{Alone, Deployment, Followed, Guarded, Loss, Pair, Sharded};
use super::fault::Fault;
use super::stage::{Habits, Programs};
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
    /// The rules for the history.
    pub(crate) mode: Mode,
    /// Whether grants must get lost, may, or must not.
    pub(crate) losses: Losses,
    pub(crate) habits: Habits,
    pub(crate) clients: u32,
    /// How many locks they use.
    pub(crate) keys: usize,
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

/// The expected number of lost grants.
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

const START_ALONE: Start = |_| Ok(Box::new(Alone::start(Server::builder())));
const START_GUARDED: Start = |_| Ok(Box::new(Guarded::start(|settings| settings)));
const START_SHARDED: Start = |_| Ok(Box::new(Sharded::start(1, |settings| settings)));

/// All of them.
pub(crate) fn all() -> Vec<Setup> {
    let mut all = alone();
    all.push(storm());
    all.extend(replicated());
    all.extend(sharded());
    all
}

/// One where nothing acknowledged may be lost. Clients raise tokens.
fn strict(name: &'static str, faults: Vec<Fault>, start: Start) -> Setup {
    Setup {
        name,
        faults,
        mode: Mode::Strict,
        losses: Losses::Never,
        habits: Habits {
            raise: RAISE,
            ..Habits::default()
        },
        clients: 8,
        keys: 4,
        length: Duration::from_secs(5),
        calm: CALM,
        start,
    }
}

/// One where what was acknowledged last may be lost. Nobody raises tokens: one that is ahead of time and
/// lost is not covered by the successor's clock.
fn lossy(name: &'static str, faults: Vec<Fault>, start: Start) -> Setup {
    Setup {
        mode: Mode::Lossy,
        losses: Losses::May,
        habits: Habits::default(),
        ..strict(name, faults, start)
    }
}

/// A server that stands alone.
fn alone() -> Vec<Setup> {
    let aof = [Fault::Crash { loses: false }, Fault::Rewrite];
    let aof_everysec = [Fault::Crash { loses: true }, Fault::Rewrite];
    let rdb = [Fault::Crash { loses: true }];
    let policies = [
        "noeviction",
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-random",
        "volatile-lru",
        "volatile-lfu",
        "volatile-random",
        "volatile-ttl",
    ];
    let fills = policies.map(Fault::Fill).to_vec();
    let clock = vec![
        Fault::ClockForward,
        Fault::ClockBack,
        Fault::Crash { loses: false },
        Fault::ClientKill,
    ];
    vec![
        strict("aof-always", against_clients_and(&aof), |random| {
            let preamble = ["yes", "no"].choose(random).expect("two");
            let settings = with_aof("always").config("aof-use-rdb-preamble", preamble);
            Ok(Box::new(Alone::start(settings)))
        }),
        lossy("aof-everysec", against_clients_and(&aof_everysec), |_| {
            Ok(Box::new(Alone::start(with_aof("everysec"))))
        }),
        Setup {
            losses: Losses::Must,
            ..lossy("rdb-only", against_clients_and(&rdb), START_ALONE)
        },
        dying_waiters(),
        frozen_programs(),
        cut_programs(),
        strict("memory-full", fills, START_ALONE),
        strict("clock-steps", clock, |_| {
            Ok(Box::new(Alone::start_with_clock(with_aof("always"))?))
        }),
    ]
}

/// Clients that die, in the worst of moments above all.
fn dying_waiters() -> Setup {
    let mut faults = against_clients_and(&[]);
    faults.retain(|fault| {
        matches!(
            fault,
            Fault::ClientKill | Fault::KillWhenGranted | Fault::Unblock | Fault::Newcomer
        )
    });
    Setup {
        habits: Habits {
            raise: RAISE,
            twins: true,
            ..Habits::default()
        },
        length: Duration::from_secs(4),
        calm: Duration::from_millis(40),
        ..strict("dying-waiters", faults, START_ALONE)
    }
}

/// Programs that freeze: they are passed over, and some of their sessions end.
fn frozen_programs() -> Setup {
    let faults = vec![Fault::Remove, Fault::Newcomer, Fault::Pause, Fault::Flush];
    with_programs("frozen-programs", faults, Programs::Freeze)
}

/// Programs whose connections are cut, closed and half-open.
fn cut_programs() -> Setup {
    let faults = vec![
        Fault::CutRequest,
        Fault::CutReply,
        Fault::HalfOpen,
        Fault::ClientKill,
        Fault::KillWhenGranted,
        Fault::Remove,
    ];
    let cut = with_programs("cut-programs", faults, Programs::Most);
    Setup { calm: CALM, ..cut }
}

fn with_programs(name: &'static str, faults: Vec<Fault>, programs: Programs) -> Setup {
    Setup {
        habits: Habits {
            programs,
            ..Habits::default()
        },
        length: Duration::from_secs(8),
        calm: Duration::from_millis(600),
        ..strict(name, faults, START_ALONE)
    }
}

/// Many clients in a hurry, on a primary that is compared with its replica and with its file. Only the rules are
/// checked: a search would take too long.
fn storm() -> Setup {
    let mut faults = vec![Fault::AnyKill; 7];
    faults.extend([Fault::Remove; 5]);
    faults.extend([Fault::Unblock; 2]);
    faults.extend([
        Fault::ClientKill,
        Fault::SessionEnd,
        Fault::Expire,
        Fault::Rename,
        Fault::Overwrite,
        Fault::Flush,
        Fault::Pause,
    ]);
    Setup {
        mode: Mode::Split,
        habits: Habits {
            hurry: true,
            ..Habits::default()
        },
        clients: 200,
        keys: 20,
        calm: Duration::from_millis(2),
        ..strict("storm", faults, |_| Ok(Box::new(Followed::start())))
    }
}

/// A primary with replicas.
fn replicated() -> Vec<Setup> {
    let failover = vec![
        Fault::HandOver,
        Fault::Pause,
        Fault::ClientKill,
        Fault::KillWhenGranted,
        Fault::Stop,
    ];
    let killed = Fault::LosePrimary(Loss::Killed);
    let hangs = Fault::LosePrimary(Loss::Hangs);
    let sentinel = |name, fault, start| Setup {
        length: Duration::from_secs(8),
        calm: Duration::from_millis(1_500),
        ..lossy(name, vec![fault, Fault::ClientKill], start)
    };
    vec![
        strict("failover", failover, |random| {
            let appendonly = if random.random() { "yes" } else { "no" };
            let settings = Server::builder().config("appendonly", appendonly);
            Ok(Box::new(Pair::start(&settings)))
        }),
        Setup {
            losses: Losses::Must,
            ..sentinel("sentinel", killed, START_GUARDED)
        },
        // Holders trust a grant only when all replicas have it.
        Setup {
            losses: Losses::Never,
            habits: Habits {
                wait: true,
                ..Habits::default()
            },
            ..sentinel("sentinel-wait", killed, START_GUARDED)
        },
        // The primary returns, and takes itself for the primary for a moment.
        Setup {
            mode: Mode::Split,
            ..sentinel("sentinel-hangs", hangs, START_GUARDED)
        },
        // The same, where a primary that has lost its replicas takes no writes.
        Setup {
            mode: Mode::Split,
            ..sentinel("sentinel-min-replicas", hangs, |_| {
                let careful = |settings: Builder| {
                    settings
                        .config("min-replicas-to-write", "1")
                        .config("min-replicas-max-lag", "1")
                };
                Ok(Box::new(Guarded::start(careful)))
            })
        },
    ]
}

/// A cluster.
fn sharded() -> Vec<Setup> {
    let calm = Duration::from_millis(300);
    let mut moves = vec![Fault::MoveSlot, Fault::Remove];
    if Server::version().is_valkey_from(9, 0) {
        moves.push(Fault::MoveSlotWhole);
    }
    let failover = vec![Fault::HandOver, Fault::Remove];
    let crash = vec![Fault::LosePrimary(Loss::Killed)];
    vec![
        Setup {
            length: Duration::from_secs(6),
            calm,
            ..strict("cluster-failover", failover, START_SHARDED)
        },
        Setup {
            length: Duration::from_secs(8),
            calm,
            ..lossy("cluster-crash", crash, START_SHARDED)
        },
        Setup {
            // A lock that is free leaves no token behind when its slot moves: only the clocks of the
            // nodes keep its tokens rising, so none may be ahead of time.
            habits: Habits::default(),
            length: Duration::from_secs(6),
            calm,
            ..strict("cluster-slots", moves, |_| {
                Ok(Box::new(Sharded::start(0, |settings| settings)))
            })
        },
    ]
}

/// The faults for the clients of any single server, and more.
fn against_clients_and(more: &[Fault]) -> Vec<Fault> {
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
    if testbed::unblocks() {
        faults.push(Fault::Unblock);
    }
    faults.extend_from_slice(more);
    faults
}

fn with_aof(fsync: &str) -> Builder {
    Server::builder()
        .config("appendonly", "yes")
        .config("appendfsync", fsync)
}
