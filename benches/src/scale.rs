//! The amounts of the quick form and of the full one.

/// A number of contenders for a number of locks.
#[derive(Clone, Copy)]
pub(crate) struct Workload {
    pub(crate) contenders: usize,
    pub(crate) locks: usize,
}

/// A number of locks that are held at once, and how often that is measured.
pub(crate) type Amount = (usize, usize);

/// All counts and times.
pub(crate) struct Scale {
    pub(crate) is_full: bool,
    pub(crate) rounds: usize,
    /// Pairs a round, sent in batches.
    pub(crate) pipelined_pairs: usize,
    /// Pairs a round, sent one command at a time.
    pub(crate) lone_pairs: usize,
    /// Locks held at once, for the memory of one.
    pub(crate) memory_locks: usize,
    /// Names used and released.
    pub(crate) used_names: usize,
    /// Hand-offs a round for each length of queue.
    pub(crate) hand_offs: usize,
    /// How many locks are held, from few to very many.
    pub(crate) amounts: &'static [Amount],
    /// Leases that end at once, with one waiter each.
    pub(crate) awaited_leases: usize,
    /// How many times all grants that the server renews are renewed while another client's PINGs are measured; how many
    /// holders are killed, and how many processes with Redisson's watchdog.
    pub(crate) renewals: u32,
    pub(crate) crashes: usize,
    pub(crate) watchdog_crashes: usize,
    /// Queued calls: so many wait at once.
    pub(crate) queued: usize,
    /// The contests: how many contenders for how many locks, the time of a turn, how many turns each contestant gets,
    /// and for how long a JVM runs before.
    pub(crate) workloads: &'static [(usize, usize)],
    pub(crate) turn_seconds: f64,
    pub(crate) turns: usize,
    pub(crate) warm_up_seconds: f64,
    /// Rounds of pairs on five servers, the time of pairs on five servers in each round, and the number of holders that are stopped for longer
    /// than their lease.
    pub(crate) quorum_rounds: usize,
    pub(crate) quorum_seconds: f64,
    pub(crate) stalls: usize,
}

impl Scale {
    /// Everything, with fewer and shorter rounds.
    pub(crate) const fn quick() -> Self {
        Self {
            is_full: false,
            rounds: 7,
            pipelined_pairs: 5_000,
            lone_pairs: 1_000,
            memory_locks: 20_000,
            used_names: 50_000,
            hand_offs: 500,
            amounts: &[(100_000, 1)],
            awaited_leases: 1_000,
            renewals: 2,
            crashes: 10,
            watchdog_crashes: 3,
            queued: 100_000,
            workloads: &[(1, 1), (64, 1), (64, 64)],
            turn_seconds: 0.15,
            turns: 9,
            warm_up_seconds: 1.0,
            quorum_rounds: 7,
            quorum_seconds: 0.2,
            stalls: 3,
        }
    }

    /// The form of the published figures.
    pub(crate) const fn full() -> Self {
        Self {
            is_full: true,
            rounds: 9,
            pipelined_pairs: 30_000,
            lone_pairs: 2_500,
            memory_locks: 100_000,
            used_names: 1_000_000,
            hand_offs: 16_000,
            amounts: &[(100_000, 5), (1_000_000, 3), (10_000_000, 1)],
            awaited_leases: 10_000,
            renewals: 6,
            crashes: 40,
            watchdog_crashes: 10,
            queued: 1_000_000,
            workloads: &[(1, 1), (8, 1), (64, 1), (256, 1), (64, 64)],
            turn_seconds: 0.5,
            turns: 21,
            warm_up_seconds: 3.0,
            quorum_rounds: 7,
            quorum_seconds: 1.0,
            stalls: 20,
        }
    }
}
