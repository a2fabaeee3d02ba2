//! Deadlock detection for a call that is about to wait.

use std::mem;

use redis_lock_core::deadlock::{Cycle, Search};
use redis_lock_core::{Limit, Owner};

use super::refuse::refuse;
use super::state::STATE;
use crate::locks::{CommandError, LockView, detects_deadlocks, now};
use crate::server::{self, Context, OwnedText, Text};
use crate::statistics::{self, Counter};

/// The verdict on a call that is about to wait.
pub(super) enum Verdict {
    /// The call may wait.
    Waits,
    /// Waiting would create a deadlock cycle.
    Cycle(Cycle),
    /// The call starts to wait, and the next tick checks it.
    ByTick,
}

/// Checks a call that is about to wait for a lock.
///
/// In a cluster the search has to run in a tick. From Redis 7.4 and on Valkey, a running command can only look up keys
/// in its own slot, but a cycle usually spans several slots.
pub(super) fn check(
    context: Context<'_>,
    name: Text<'_>,
    owner: Owner<'_>,
    limit: Limit,
) -> Verdict {
    match begin(context, name, owner, limit) {
        None => Verdict::Waits,
        Some(_) if context.flags().cluster() => Verdict::ByTick,
        Some(search) => follow(context, search).map_or(Verdict::Waits, Verdict::Cycle),
    }
}

/// Checks the calls that [`check`] left to the tick, and refuses each one that waits in a deadlock cycle.
pub(super) fn check_rest(context: Context<'_>) {
    let rest = STATE.with(context, |state| mem::take(&mut state.to_check));
    for id in rest {
        let call = STATE.with(context, |state| {
            let call = state.calls.get(id).filter(|call| call.is_waiting())?;
            Some((call.lock_id.clone(), call.waiter.clone()))
        });
        let Some((lock_id, waiter)) = call else {
            continue;
        };
        if !context.select_database(lock_id.database) {
            continue;
        }
        let (name, owner) = (OwnedText::new(&lock_id.key), waiter.owner.as_owner());
        let search = begin(context, name.text(), owner, waiter.limit);
        if let Some(cycle) = search.and_then(|search| follow(context, search)) {
            refuse(context, id, error(&cycle));
        }
    }
}

/// Counts and logs a deadlock, and returns the error for the caller.
pub(super) fn error(cycle: &Cycle) -> CommandError {
    statistics::count(Counter::Deadlocks);
    log(cycle);
    CommandError::Deadlock(cycle.text())
}

/// Begins a search at the holders of the lock. Returns `None` if a cycle is impossible.
fn begin<'a>(
    context: Context<'_>,
    name: Text<'a>,
    owner: Owner<'a>,
    limit: Limit,
) -> Option<Search<'a>> {
    // A cycle needs at least two locks.
    let nobody_waits_elsewhere = || {
        let database = context.database();
        let waits = STATE.if_busy(context, |state| {
            state.calls.len() - state.calls.waiting(database, name.bytes())
        });
        waits == 0
    };
    if !detects_deadlocks() || nobody_waits_elsewhere() {
        return None;
    }
    let now = now(context);
    let view = LockView::open(context, name);
    let holders = view.holders(now).ok()?;
    let lock = (context.database(), name.bytes());
    STATE.with(context, |state| {
        Search::begin(&state.calls, owner, lock, limit, holders.as_ref(), now)
    })
}

/// Follows the search from lock to lock, then selects the original database again.
fn follow(context: Context<'_>, mut search: Search<'_>) -> Option<Cycle> {
    let (database, now) = (context.database(), now(context));
    let mut cycle = None;
    while cycle.is_none()
        && let Some(next) = STATE.with(context, |state| search.next_lock(&state.calls))
        && context.select_database(next.database)
    {
        // Do not borrow the state here: opening an expired key raises an event whose handler borrows it too.
        let name = OwnedText::new(&next.key);
        let view = LockView::open(context, name.text());
        if let Ok(holders) = view.holders(now) {
            cycle = STATE.with(context, |state| {
                // Ignore a grant that is about to be given back: it blocks nobody for long.
                let holders = holders.filter(|_| !state.calls.gives_back(next.database, &next.key));
                search.visit(&state.calls, holders.as_ref(), now)
            });
        }
    }
    context.select_database(database);
    cycle
}

/// Logs which owner waits for which lock. Names are escaped and shortened.
fn log(cycle: &Cycle) {
    const MAX_NAME: usize = 64;
    const MAX_OWNERS: usize = 16;
    let shown = |name: &[u8]| {
        let cut = &name[..name.len().min(MAX_NAME)];
        let more = if cut.len() < name.len() { "..." } else { "" };
        format!("'{}{more}'", cut.escape_ascii())
    };
    let waits = cycle.waits();
    let mut lines: Vec<_> = waits
        .iter()
        .take(MAX_OWNERS)
        .map(|(owner, lock)| {
            let (owner, key) = (shown(owner.as_owner().bytes()), shown(&lock.key));
            format!("{owner} waits for {key} of database {}", lock.database)
        })
        .collect();
    if waits.len() > MAX_OWNERS {
        lines.push(format!("and {} more", waits.len() - MAX_OWNERS));
    }
    server::log_verbose(&format!("deadlock: {}", lines.join(", ")));
}
