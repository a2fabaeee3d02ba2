//! A waiting client's end: its answer, or its leaving.

use super::alarm;
use super::answer::{Answer, Wait};
use super::state::STATE;
use crate::core::Owner;
use crate::locks::reply_grant;
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
                STATE.with(context, |state| {
                    state.handles.remove(handle);
                    // A client that is to be closed is still called back, and its reply dropped.
                    let before = state.landing.insert(context.client_id(), *id);
                    if let Some(before) = before {
                        state.flights.arrive(before);
                    }
                });
                match Owner::new(owner) {
                    Some(owner) => reply_grant(context, owner, *grant),
                    None => context.reply_null(),
                }
            }
            Answer::Nothing => context.reply_null(),
            Answer::Fault(fault) => fault.reply(context),
        }
    }

    fn gone(context: Context<'_>, handle: Handle) -> Option<Blocked<Self>> {
        let (blocked, owes) = STATE.with(context, |state| {
            let Some(id) = state.handles.remove(&handle) else {
                return (None, false);
            };
            let lost = state.flights.lose(id);
            let owes = lost.is_some();
            state.give_backs.extend(lost);
            (state.leave(context, id, WaitEnd::GivenUp), owes)
        });
        if owes {
            alarm::soon(context);
        }
        blocked
    }

    fn unblocked(context: Context<'_>, handle: Handle) -> Option<Blocked<Self>> {
        context.reply_null();
        Self::gone(context, handle)
    }
}
