//! Gives back the holds of callers that disconnected. The core's `calls/granted.rs` decides what to give back.

use redis_lock_core::{LockChange, Release, release};

use super::ended::open_without_ended;
use super::serve::{Caller, serve};
use super::state::STATE;
use crate::locks::{Announce, KeyspaceEvent, now, released as grant_released};
use crate::server::{Context, Text};
use crate::sessions::{self, Membership};
use crate::statistics::{self, Counter};

/// Applies the give-backs of a lock of the selected database, then serves its waiters.
#[inline]
pub(super) fn apply_give_backs(context: Context<'_>, name: Text<'_>, caller: Caller) {
    if STATE.is_busy() {
        apply_any(context, name, caller);
    }
}

#[inline(never)]
fn apply_any(context: Context<'_>, name: Text<'_>, caller: Caller) {
    if STATE.with(context, |state| {
        state.calls.gives_back(context.database(), name.bytes())
    }) {
        apply(context, name);
        serve(context, name, caller);
    }
}

fn apply(context: Context<'_>, name: Text<'_>) {
    let give_backs = STATE.with(context, |state| {
        let calls = &mut state.calls;
        calls.take_give_backs(context.database(), name.bytes())
    });
    for give_back in give_backs {
        let key = open_without_ended(context, name);
        let Ok(holders) = key.holders() else { break };
        let Some(amount) = give_back.amount_to_release(holders.as_ref()) else {
            continue;
        };
        let request = Release {
            owner: give_back.owner.as_owner(),
            amount,
            token: Some(give_back.token()),
        };
        let Ok(released) = release(holders.as_ref(), &request, || now(context)) else {
            continue;
        };
        if released.change != LockChange::Keep {
            statistics::count(Counter::Releases);
        }
        let (token, holder) = (released.before.token, released.holder.as_ref());
        if holder.is_none() {
            grant_released(context, token);
        }
        let membership = Membership::GivenBack;
        sessions::track_change(&key, Some(token), holder, &released.change, membership);
        key.write(
            &released.change,
            Announce::Events(&[KeyspaceEvent::Release]),
        );
    }
}
