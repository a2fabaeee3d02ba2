//! Chooses the next waiter of a lock.

use super::{CallId, Calls, Holders, Owner};

/// The call to judge next. The order is:
///
/// 1. another call of the owner that was just granted the lock;
/// 2. a call that was not judged with its owner's grant (`calls/unjudged.rs`);
/// 3. for an exclusive lock, a call of its holder; for any other lock the first call in line, if the lock has room or the
///    owner of the call holds the lock already (after a restore, for example).
#[must_use]
pub fn next_in_line<A>(
    calls: &mut Calls<A>,
    (database, key): (i32, &[u8]),
    holders: Option<&Holders<'_>>,
    just_granted: Option<Owner<'_>>,
    max_holders: usize,
) -> Option<CallId> {
    let of_owner =
        |calls: &Calls<A>, owner: Owner<'_>| calls.first_eligible_of(database, key, owner.bytes());
    if let Some(next) = just_granted.and_then(|owner| of_owner(calls, owner)) {
        return Some(next);
    }
    if let Some(next) = calls.take_unjudged((database, key), holders) {
        return Some(next);
    }
    if let Some(Holders::Exclusive(holder)) = holders {
        return of_owner(calls, holder.owner);
    }
    let first = calls.first_eligible(database, key)?;
    let waiter = &calls.get(first)?.waiter;
    let holds_already = || holders?.find(waiter.owner.as_owner());
    let has_room = Holders::has_room(holders, waiter.limit, max_holders);
    (has_room || holds_already().is_some()).then_some(first)
}
