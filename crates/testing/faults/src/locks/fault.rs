//! The faults of this workload, for servers and clients.

use super::deployment::Loss;

/// Something that is done to the servers or to their clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// `kill -9` and a restart.
    Crash {
        /// The last acknowledged changes may be lost.
        loses: bool,
    },
    /// `SIGSTOP` for longer than short leases, then `SIGCONT`.
    Stop,
    /// `CLIENT KILL` of the first in line.
    ClientKill,
    /// `CLIENT KILL` of any client.
    AnyKill,
    /// `CLIENT KILL` of the first in line in the moment when it gets the lock.
    KillWhenGranted,
    /// `CLIENT UNBLOCK` of the first in line.
    Unblock,
    /// A connection that is cut in the middle of a request.
    CutRequest,
    /// One that is cut in the middle of a reply.
    CutReply,
    /// One on which all bytes get lost, and whose end the server does not notice.
    HalfOpen,
    /// `CLIENT PAUSE`
    Pause,
    /// `BGSAVE`
    Save,
    /// `BGREWRITEAOF`
    Rewrite,
    /// `FLUSHDB` or `FLUSHALL`
    Flush,
    /// `DEL` or `UNLINK` of a held lock.
    Remove,
    /// `PEXPIRE` of one, to a millisecond.
    Expire,
    /// `RENAME` of one.
    Rename,
    /// `SET` in its place.
    Overwrite,
    /// `LOCK.SESSION KILL` or `CLOSE`.
    SessionEnd,
    /// `DEL` of a lock that is waited for, and at once a newcomer's acquire.
    Newcomer,
    /// Memory full, with this `maxmemory-policy`.
    Fill(&'static str),
    /// The server's clock an hour forward for a while.
    ClockForward,
    /// And an hour back.
    ClockBack,
    /// A primary gives its role to a replica in good order.
    HandOver,
    /// A replica takes the place of a primary that is lost.
    LosePrimary(Loss),
    /// A slot moves to another node by `MIGRATE`.
    MoveSlot,
    /// A slot moves to another node as a whole.
    MoveSlotWhole,
}

impl Fault {
    /// A word or two for the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Crash { .. } => "kill -9",
            Self::Stop => "SIGSTOP",
            Self::ClientKill => "CLIENT KILL",
            Self::AnyKill => "CLIENT KILL of any",
            Self::KillWhenGranted => "killed when granted",
            Self::Unblock => "CLIENT UNBLOCK",
            Self::CutRequest => "cut request",
            Self::CutReply => "cut reply",
            Self::HalfOpen => "half-open",
            Self::Pause => "CLIENT PAUSE",
            Self::Save => "BGSAVE",
            Self::Rewrite => "BGREWRITEAOF",
            Self::Flush => "FLUSHALL",
            Self::Remove => "DEL",
            Self::Expire => "PEXPIRE",
            Self::Rename => "RENAME",
            Self::Overwrite => "SET",
            Self::SessionEnd => "SESSION KILL",
            Self::Newcomer => "newcomer",
            Self::Fill(policy) => policy,
            Self::ClockForward => "clock forward",
            Self::ClockBack => "clock back",
            Self::HandOver => "hand-over",
            Self::LosePrimary(Loss::Killed) => "primary killed",
            Self::LosePrimary(Loss::Hangs) => "primary hangs",
            Self::MoveSlot => "MIGRATE",
            Self::MoveSlotWhole => "MIGRATESLOTS",
        }
    }
}
