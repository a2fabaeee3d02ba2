//! Who is next in line for a lock that may be shared.

use super::holders::Holders;
use crate::{Owner, Queues, WaiterId};

/// The call to judge next: one of the owner who was just granted, if it waits with others, else the first
/// in line, if it has room.
///
/// The owner of the first call may hold the lock already (it was restored, say); it is judged then too.
#[must_use]
pub fn next_in_line(
    queues: &Queues,
    (database, key): (i32, &[u8]),
    holders: Option<&Holders<'_>>,
    just_granted: Option<Owner<'_>>,
    max_holders: usize,
) -> Option<WaiterId> {
    let of_owner = |owner: Owner<'_>| queues.first_of(database, key, owner.bytes());
    if let Some(next) = just_granted.and_then(of_owner) {
        return Some(next);
    }
    if let Some(Holders::Alone(held)) = holders {
        return of_owner(held.owner);
    }
    let first = queues.first(database, key)?;
    let waiter = queues.get(first)?;
    let holds_already = match holders {
        Some(Holders::Shared(shared)) => shared.shares.of(waiter.owner.as_owner()).is_some(),
        _ => false,
    };
    let has_room = Holders::has_room(holders, waiter.limit, max_holders);
    (has_room || holds_already).then_some(first)
}
