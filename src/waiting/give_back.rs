//! What callers that are gone give back.

use redis_lock_core::{GiveBack, LockChange, LockId, Release, release};

use super::serve::{Caller, serve};
use super::state::STATE;
use crate::keeping;
use crate::locks::{Announce, KeyspaceEvent, LockKey, now, released as grant_released};
use crate::server::{Context, Text};
use crate::sessions::{self, Membership};
use crate::statistics::{self, Counter};

/// Does the give-backs of this lock, before a command on it.
pub(super) fn settle(context: Context<'_>, name: Text<'_>) {
    settle_for(context, name, Caller::Command);
}

/// As [`settle`], before a command that the server allows also where it would refuse one that writes.
pub(super) fn settle_before_look(context: Context<'_>, name: Text<'_>) {
    settle_for(context, name, Caller::EventLoop);
}

#[inline]
fn settle_for(context: Context<'_>, name: Text<'_>, caller: Caller) {
    let give_backs = STATE.if_busy(context, |state| {
        if state.give_backs.is_empty() {
            return Vec::new();
        }
        let lock_id = LockId::new(context.database(), name.bytes());
        state.give_backs.take(&lock_id)
    });
    if !give_backs.is_empty() {
        apply_give_backs(context, name, give_backs);
        serve(context, name, caller);
    }
}

/// Does the give-backs of this lock, from the event loop.
pub(super) fn give_back(context: Context<'_>, name: Text<'_>, lock_id: &LockId) {
    apply_give_backs(
        context,
        name,
        STATE.with(context, |state| state.give_backs.take(lock_id)),
    );
    serve(context, name, Caller::EventLoop);
}

fn apply_give_backs(context: Context<'_>, name: Text<'_>, give_backs: Vec<GiveBack>) {
    for give_back in give_backs {
        keeping::given_back(context, name, give_back.token(), give_back.client_id());
        let key = LockKey::open(context, name);
        let Ok(holders) = key.holders() else { break };
        let Some((owner, amount)) = give_back.release(holders.as_ref()) else {
            continue;
        };
        let request = Release {
            owner: owner.as_owner(),
            amount,
            token: None,
        };
        let Ok(released) = release(holders.as_ref(), &request, now(context)) else {
            continue;
        };
        if released.change != LockChange::Keep {
            statistics::count(Counter::Releases);
        }
        let (token, holder) = (released.before.token, released.holder);
        if holder.is_none() {
            grant_released(context, token);
        }
        keeping::note_change(&key, Some(token), holder, &released.change, None);
        let membership = Membership::GivenBack;
        sessions::note_change(&key, Some(token), holder, &released.change, membership);
        key.write(
            &released.change,
            Announce::Events(&[KeyspaceEvent::Release]),
        );
    }
}
