//! A waiting client's end: its answer, or its leaving.

use super::alarm;
use super::answer::{Answer, Wait};
use super::state::STATE;
use crate::core::WaiterId;
use crate::locks::{monotonic, reply_grant};
use crate::server::{Blocked, Context, Handle, Socket, Waits};
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
                socket,
            } => {
                let client = context.client_id();
                let held_up = STATE.with(context, |state| {
                    state.forget(*handle);
                    state.turns.held_up(monotonic())
                });
                let socket = if held_up {
                    socket.or_else(|| context.socket(client))
                } else {
                    None
                };
                if socket.is_some_and(Socket::peer_is_gone) {
                    lose(context, *id);
                } else {
                    // A client that is to be closed is still called back, and its reply dropped.
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
    let owes = STATE.with(context, |state| {
        let lost = state.flights.lose(id);
        let owes = lost.is_some();
        state.give_backs.extend(lost);
        owes
    });
    if owes {
        alarm::soon(context);
    }
}
