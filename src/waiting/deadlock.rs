//! Who would wait in a circle.

use redis_lock_core::deadlock::{Circle, Search};
use redis_lock_core::{Limit, Owner};

use super::state::STATE;
use crate::locks::{LockView, detects_deadlocks, now};
use crate::server::{self, Context, OwnedText, Text};

/// The circle that a call would close by waiting for a lock.
pub(super) fn circle(
    context: Context<'_>,
    name: Text<'_>,
    owner: Owner<'_>,
    limit: Limit,
) -> Option<Circle> {
    if !detects_deadlocks() || STATE.if_busy(context, |state| state.queues.len()) == 0 {
        return None;
    }
    let database = context.database();
    let now = now(context);
    let mut search = {
        let view = LockView::open(context, name);
        let holders = view.holders(now).ok()?;
        let lock = (database, name.bytes());
        STATE.with(context, |state| {
            Search::begin(&state.queues, owner, lock, limit, holders.as_ref(), now)
        })?
    };
    let found = loop {
        let Some(next) = STATE.with(context, |state| search.next_lock(&state.queues)) else {
            break None;
        };
        if !context.select_database(next.database) {
            break None;
        }
        // Opened without a borrow of the queues: a key that has expired comes back to them.
        let name = OwnedText::new(&next.key);
        let view = LockView::open(context, name.text());
        let Ok(holders) = view.holders(now) else {
            continue;
        };
        let found = STATE.with(context, |state| {
            // What a caller who is gone is still to give back stands in nobody's way for long.
            let holders = holders.filter(|_| !state.give_backs.contains(&next));
            search.look(&state.queues, holders.as_ref(), now)
        });
        if found.is_some() {
            break found;
        }
    };
    context.select_database(database);
    found.inspect(note)
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
