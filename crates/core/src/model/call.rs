//! The waiting calls, and the events that can happen to them.

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
    /// This many milliseconds pass on both clocks.
    Pass(u64),
    /// The client of a waiting call disconnects.
    Disconnect(usize),
    /// A program may be dead or frozen: the calls of its session are passed over.
    Leave(usize),
    /// The program of a session polls again.
    Return(usize),
    /// A session ends with all its calls. The next session reuses its number.
    EndSession(usize),
    /// The reply of a granted call is written.
    Write(usize),
    /// The written replies are sent, as far as the clients read.
    Send,
    /// The client of a granted call disconnects before its reply is sent.
    Abandon(usize),
    /// The client of a sent reply calls again.
    Confirm(usize),
    /// The client of a sent reply disconnects before it has read the reply.
    Unsent(usize),
    /// The event loop's tick.
    Tick,
}

/// How an acquire waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    /// For at most this many milliseconds; 0 is forever.
    pub(crate) millis: u64,
    pub(crate) session: Option<usize>,
    /// `QUEUE`, which blocks no client, and needs a session and a hold count.
    pub(crate) is_queued: bool,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The reply was sent.
    Answered,
    /// A queued call was granted the lock with this token, of which its session has the event at once.
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
    /// True if the call added a hold. With `HOLDS` it adds none if there are enough.
    pub(super) took: bool,
}

/// The stage of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The call waits in line.
    Waiting,
    /// The call was granted the lock, but its reply is not written yet.
    Granted(Granted),
    /// The reply is written, but the server may still drop it.
    Written(Granted),
    /// The reply is sent as far as the client has read, and it was the first answer about this grant.
    Sent(Granted),
    /// The client did not get the reply. With true, only an unchanged grant is given back.
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
