//! What callers that are gone give back.

use redis_lock_core::sharing::{self, Transition};
use redis_lock_core::{GiveBack, LockId, Release};

use super::serve::{Caller, serve};
use super::state::STATE;
use crate::keeping;
use crate::locks::{KeyspaceEvent, LockKey, now, released};
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
        let before = holders
            .as_ref()
            .and_then(|holders| holders.grant_of(request.owner));
        let Ok((left, transition)) = sharing::release(holders.as_ref(), &request, now(context))
        else {
            continue;
        };
        if !matches!(transition, Transition::Keep) {
            statistics::count(Counter::Releases);
        }
        if let (0, Some((grant, _))) = (left, before) {
            released(context, grant.token);
        }
        let token = before.map(|(grant, _)| grant.token);
        keeping::note_change(&key, token, &transition, None);
        sessions::note_change(&key, token, &transition, Membership::GivenBack);
        key.change(&transition, KeyspaceEvent::Release);
    }
}
