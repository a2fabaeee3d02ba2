//! A waiting client's end: its answer, or its leaving.

use redis_lock_core::WaiterId;

use super::alarm;
use super::answer::{Answer, Wait};
use super::sockets::peer_is_gone;
use super::state::STATE;
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
            } => {
                let client = context.client_id();
                let held_up = STATE.with(context, |state| {
                    state.forget(*handle);
                    let held_up = STATE.turns.held_up(monotonic());
                    if !held_up {
                        state.write(client, *id);
                    }
                    held_up
                });
                if held_up && peer_is_gone(context, *id, client) {
                    lose(context, *id);
                    // It may still read: it has closed its sending side alone.
                    context.reply_null();
                    return;
                }
                if held_up {
                    STATE.with(context, |state| state.write(client, *id));
                }
                reply_grant(context, owner.as_owner(), *grant);
            }
            Answer::Nothing => context.reply_null(),
            Answer::Fault(fault) => fault.reply(context),
        }
    }

    fn gone(context: Context<'_>, handle: Handle) -> Option<Blocked<Self>> {
        let id = STATE.with(context, |state| state.forget(handle))?;
        lose(context, id);
        STATE.with(context, |state| state.leave(context, id, WaitEnd::GivenUp))
    }

    fn unblocked(context: Context<'_>, handle: Handle) -> Option<Blocked<Self>> {
        context.reply_null();
        Self::gone(context, handle)
    }
}

/// The call's client is gone: what it was granted, if it was, is given back.
fn lose(context: Context<'_>, id: WaiterId) {
    if STATE.with(context, |state| state.lose(id)) {
        alarm::soon(context);
    }
}
