//! The faults of this workload, for servers and contenders.

/// One of these things.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    /// A connection is cut in the middle of a reply, or of a request.
    Cut,
    /// `kill -9`, and a restart after a while; or of a majority in turn, with a restart at once.
    KillServer,
    /// `SIGSTOP` of some, and after a while `SIGCONT`.
    StopServers,
    /// The tokens of one are put ahead of time; then it is stopped for a while.
    PutAhead,
    /// `SIGSTOP` of one that holds a lock, for longer than its lease.
    StopContender,
    /// `kill -9` of one that holds a lock; another one comes.
    KillContender,
}

/// Each, and how often of a hundred times.
pub(crate) const ALL: [(Fault, u32); 6] = [
    (Fault::Cut, 50),
    (Fault::KillServer, 14),
    (Fault::StopServers, 8),
    (Fault::PutAhead, 10),
    (Fault::StopContender, 12),
    (Fault::KillContender, 6),
];
