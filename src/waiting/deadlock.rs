//! Deadlock detection for a call that is about to wait.

use std::mem;

use redis_lock_core::deadlock::{Circle, Search};
use redis_lock_core::{Limit, Owner};

use super::refuse::refuse;
use super::state::STATE;
use crate::locks::{CommandError, LockView, detects_deadlocks, now};
use crate::server::{self, Context, OwnedText, Text};
use crate::statistics::{self, Counter};

/// The verdict on a call that is about to wait.
pub(super) enum Judged {
    /// It may wait.
    Waits,
    /// It would wait in a circle.
    Circle(Circle),
    /// It may wait until the next tick, which judges it.
    ByTick,
}

/// Judges a call that is about to wait for a lock.
///
/// A command of a cluster node finds only keys of its own slot, because from Redis 7.4 on and on Valkey the server
/// looks up all keys in that slot. There a tick continues the search.
pub(super) fn judge(
    context: Context<'_>,
    name: Text<'_>,
    owner: Owner<'_>,
    limit: Limit,
) -> Judged {
    match begin(context, name, owner, limit) {
        None => Judged::Waits,
        Some(_) if context.flags().cluster() => Judged::ByTick,
        Some(search) => follow(context, search).map_or(Judged::Waits, Judged::Circle),
    }
}

/// Judges the calls that a tick is to judge, and answers who waits in a circle.
pub(super) fn judge_rest(context: Context<'_>) {
    let rest = STATE.with(context, |state| mem::take(&mut state.to_judge));
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
        if let Some(circle) = search.and_then(|search| follow(context, search)) {
            refuse(context, id, error(&circle));
        }
    }
}

/// The error of a call that closes a circle.
pub(super) fn error(circle: &Circle) -> CommandError {
    statistics::count(Counter::Deadlocks);
    note(circle);
    CommandError::Deadlock(circle.text())
}

/// Looks at the holders of the lock. `None` where that tells that no circle can be closed.
fn begin<'a>(
    context: Context<'_>,
    name: Text<'a>,
    owner: Owner<'a>,
    limit: Limit,
) -> Option<Search<'a>> {
    // A circle goes over two locks at least.
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

/// Goes from lock to lock, and returns to the database.
fn follow(context: Context<'_>, mut search: Search<'_>) -> Option<Circle> {
    let (database, now) = (context.database(), now(context));
    let mut circle = None;
    while circle.is_none()
        && let Some(next) = STATE.with(context, |state| search.next_lock(&state.calls))
        && context.select_database(next.database)
    {
        // Opened without a borrow of the calls: opening an expired key calls back into them.
        let name = OwnedText::new(&next.key);
        let view = LockView::open(context, name.text());
        if let Ok(holders) = view.holders(now) {
            circle = STATE.with(context, |state| {
                // A grant that is about to be undone blocks nobody for long.
                let holders = holders.filter(|_| !state.calls.gives_back(next.database, &next.key));
                search.look(&state.calls, holders.as_ref(), now)
            });
        }
    }
    context.select_database(database);
    circle
}

/// Notes a circle in the log: who waits for which lock, escaped and cut.
fn note(circle: &Circle) {
    const MAX_NAME: usize = 64;
    const MAX_OWNERS: usize = 16;
    let shown = |name: &[u8]| {
        let cut = &name[..name.len().min(MAX_NAME)];
        let more = if cut.len() < name.len() { "..." } else { "" };
        format!("'{}{more}'", cut.escape_ascii())
    };
    let waits = circle.waits();
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
