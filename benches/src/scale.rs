//! The amounts of the quick form and of the full one.

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
    /// Growth: how many powers of ten, and how many times.
    pub(crate) powers: u32,
    pub(crate) growths: usize,
    /// How many locks are held, of which files are written.
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
    /// The contests: the time of a turn, how many turns each contestant gets, and for how long a JVM runs before.
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
            powers: 3,
            growths: 1,
            amounts: &[(100_000, 1)],
            awaited_leases: 1_000,
            renewals: 1,
            crashes: 10,
            watchdog_crashes: 3,
            queued: 100_000,
            turn_seconds: 0.15,
            turns: 5,
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
            pipelined_pairs: 20_000,
            lone_pairs: 2_500,
            memory_locks: 100_000,
            used_names: 200_000,
            hand_offs: 16_000,
            powers: 5,
            growths: 3,
            amounts: &[(100_000, 3), (1_000_000, 1)],
            awaited_leases: 10_000,
            renewals: 1,
            crashes: 40,
            watchdog_crashes: 10,
            queued: 1_000_000,
            turn_seconds: 0.3,
            turns: 11,
            warm_up_seconds: 2.0,
            quorum_rounds: 7,
            quorum_seconds: 1.0,
            stalls: 20,
        }
    }
}
