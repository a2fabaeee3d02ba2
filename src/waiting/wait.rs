//! A waiting client's end: its answer, or its leaving.

use std::borrow::Cow;
use std::ffi::CString;
use std::sync::Arc;

use super::rounds;
use super::state::STATE;
use crate::core::{Grant, Owner, WaiterId};
use crate::locks::{Fault, reply_grant};
use crate::server::{Blocked, Context, Handle, Waits};

/// Waiting for a lock.
pub(super) struct Wait;

/// What a waiting call is told.
pub(super) enum Answer {
    /// It has the lock.
    Granted {
        id: WaiterId,
        handle: Handle,
        owner: Arc<[u8]>,
        grant: Grant,
    },
    /// Its time is up, or it was called off.
    Nothing,
    /// It gets an error.
    Fault(Fault),
}

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
            (state.leave(id), owes)
        });
        if owes {
            rounds::soon(context);
        }
        blocked
    }

    fn unblocked(context: Context<'_>, handle: Handle) -> Option<Blocked<Self>> {
        context.reply_null();
        Self::gone(context, handle)
    }
}

impl Answer {
    pub(super) const fn error(text: CString) -> Self {
        Self::Fault(Fault::Argument(Cow::Owned(text)))
    }
}
