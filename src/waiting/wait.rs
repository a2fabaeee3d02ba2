//! How a waiting call ends: it is answered, or its client disconnects.

use redis_lock_core::WaiterId;

use super::answer::{Answer, Wait};
use super::peer::peer_has_closed;
use super::state::STATE;
use super::timer;
use crate::locks::{monotonic, reply_grant};
use crate::server::{Blocked, Context, Handle, Waits};
use crate::statistics::WaitEnd;

impl Waits for Wait {
    type Answer = Answer;

    fn reply(context: Context<'_>, answer: &Answer) {
        match answer {
            Answer::Granted {
                id,
                handle,
                owner,
                grant,
                limit,
            } => {
                let client = context.client_id();
                let stalled = STATE.with(context, |state| {
                    state.forget_handle(*handle);
                    let stalled = STATE.stalls.is_stalled(monotonic());
                    if !stalled {
                        state.reply_written(client, *id);
                    }
                    stalled
                });
                if stalled && peer_has_closed(context, *id, client) {
                    abandon(context, *id);
                    // It may have closed only its sending side, and still read.
                    context.reply_null();
                    return;
                }
                if stalled {
                    STATE.with(context, |state| state.reply_written(client, *id));
                }
                reply_grant(context, owner.as_owner(), *grant, *limit);
            }
            Answer::Nothing => context.reply_null(),
            Answer::Error(error) => error.reply(context),
        }
    }

    fn disconnected(context: Context<'_>, handle: Handle) -> Option<Blocked<Self>> {
        let id = STATE.with(context, |state| state.forget_handle(handle))?;
        abandon(context, id);
        let (blocked, room) = STATE.with(context, |state| {
            let blocked = state.end_wait(context, id, WaitEnd::GivenUp);
            (blocked, !state.maybe_free.is_empty())
        });
        if room {
            timer::soon(context);
        }
        blocked
    }

    fn unblocked(context: Context<'_>, handle: Handle) -> Option<Blocked<Self>> {
        context.reply_null();
        Self::disconnected(context, handle)
    }
}

/// The call's client has disconnected: its grant, if it has one, is given back.
fn abandon(context: Context<'_>, id: WaiterId) {
    if STATE.with(context, |state| state.abandon(id)) {
        timer::soon(context);
    }
}
