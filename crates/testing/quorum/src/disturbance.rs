//! What can be done to servers and contenders.

/// One of these things.
#[derive(Clone, Copy)]
pub(crate) enum Disturbance {
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
pub(crate) const ALL: [(Disturbance, u32); 6] = [
    (Disturbance::Cut, 50),
    (Disturbance::KillServer, 14),
    (Disturbance::StopServers, 8),
    (Disturbance::PutAhead, 10),
    (Disturbance::StopContender, 12),
    (Disturbance::KillContender, 6),
];
