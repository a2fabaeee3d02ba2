//! How a waiting POLL is answered.

use redis_lock_core::sessions::PollReply;

use crate::locks::CommandError;

/// Marks the clients that are blocked in a POLL.
pub(super) struct Poll;

/// The answer to a client that is blocked in a POLL.
pub(super) enum Answer {
    Reply(PollReply),
    Error(CommandError),
}
