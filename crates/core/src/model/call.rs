//! The calls that wait, and what may happen to them.

use super::lock::{self, Event, Holder, Key};

/// An event of a server with waiting calls.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// A lock command. An acquire with a wait queues if it has no room.
    Call(lock::Call, Option<Wait>),
    Event(Event),
    /// `FLUSHDB`.
    Flush(i32),
    /// `SWAPDB 0 1`, while no grant is pending.
    Swap,
    /// So many milliseconds pass, on both clocks.
    Pass(u64),
    /// The client of a waiting call disconnects.
    Disconnect(usize),
    /// A program may be dead or frozen: the calls of its session are passed over.
    Leave(usize),
    /// It polls its session again.
    Return(usize),
    /// A session ends with all its calls. The next one has its number.
    EndSession(usize),
    /// The reply of a granted call is written.
    Write(usize),
    /// The written replies are sent, as far as the clients read.
    Send,
    /// The client of a granted call disconnects before its reply is sent.
    Abandon(usize),
    /// The client of a sent reply calls again.
    Confirm(usize),
    /// The client of a sent reply disconnects and has not read it.
    Unsent(usize),
    /// The event loop's tick.
    Tick,
}

/// How an acquire waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    /// For so many milliseconds; 0: forever.
    pub(crate) millis: u64,
    pub(crate) session: Option<usize>,
    /// `QUEUE`: it blocks no client. It has a session and a hold count.
    pub(crate) is_queued: bool,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The reply was sent.
    Answered,
    /// A queued call was granted the lock, which its session knows at once by this token.
    Told(u64),
    SessionEnded,
    Abandoned,
    TimedOut,
    Cancelled,
    Disconnected,
    Refused(&'static str),
}

/// The grant of a waiting call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    /// The holder as the call left it.
    pub(crate) as_granted: Holder,
    /// The call added a hold. With `HOLDS` it adds none when there are enough.
    pub(super) took: bool,
}

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It waits in line.
    Waiting,
    /// It was granted the lock. The reply is not written yet.
    Granted(Granted),
    /// The reply is written. The server may still drop it.
    Written(Granted),
    /// The reply is sent as far as the client reads, and it was the first answer about this grant.
    Sent(Granted),
    /// The client was not told of the grant. With true, only an unchanged grant is given back.
    GivesBack(Granted, bool),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) number: usize,
    pub(crate) key: Key,
    pub(crate) owner: usize,
    pub(super) px: Option<u64>,
    pub(crate) limit: u64,
    pub(crate) holds: Option<u64>,
    pub(crate) session: Option<usize>,
    pub(crate) is_queued: bool,
    /// When the wait ends, on the monotonic clock in milliseconds.
    pub(super) until: Option<u64>,
    pub(crate) stage: Stage,
}

impl Call {
    /// Its grant, while the reply is not sent.
    pub(super) fn pending(&self) -> Option<Granted> {
        match self.stage {
            Stage::Granted(granted) | Stage::Written(granted) => Some(granted),
            _ => None,
        }
    }

    pub(super) fn gives_back(&self) -> bool {
        matches!(self.stage, Stage::GivesBack(..))
    }
}
