//! The server's callbacks for a client that is blocked for a lock: reply, disconnect, CLIENT UNBLOCK.
//!
//! After a disconnect the core's `calls/granted.rs` decides what to give back, and a tick applies it (`give_back.rs`).

use super::answer::{Answer, LockWait, Recipient};
use super::disconnect_check::has_disconnected;
use super::state::STATE;
use super::timer;
use crate::locks::{monotonic, reply_grant};
use crate::server::{Blocked, BlockedCallbacks, Context};
use crate::statistics::WaitEnd;

impl BlockedCallbacks for LockWait {
    type Answer = Answer;

    fn reply(context: Context<'_>, answer: &Answer) {
        match answer {
            Answer::Granted {
                owner,
                grant,
                limit,
                names_limit,
            } => {
                let client = context.client_id();
                if STATE.stalls.is_stalled(monotonic()) && has_disconnected(context, client) {
                    Self::disconnected(context);
                    // The client may have closed only its sending side and still read the reply.
                    context.reply_null();
                } else {
                    STATE.with(context, |state| state.calls.reply_written(client));
                    let limit = names_limit.then_some(*limit);
                    reply_grant(context, owner.as_owner(), *grant, limit);
                }
            }
            Answer::TimedOut | Answer::Cancelled => context.reply_null(),
            Answer::Error(error) => error.reply(context),
        }
    }

    fn disconnected(context: Context<'_>) -> Option<Blocked<Self>> {
        let now = monotonic();
        let (blocked, is_ready) = STATE.with(context, |state| {
            let id = state.calls.blocked_by(context.client_id())?;
            let blocked = if state.calls.abandon(id) {
                None
            } else {
                let ended = state.end_wait(context, now, id, WaitEnd::GivenUp);
                ended.and_then(Recipient::client)
            };
            Some((blocked, state.calls.ready_len() > 0))
        })?;
        if is_ready {
            timer::soon(context);
        }
        blocked
    }

    fn unblocked(context: Context<'_>) -> Option<Blocked<Self>> {
        context.reply_null();
        Self::disconnected(context)
    }
}
