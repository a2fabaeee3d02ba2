//! Whether anybody reads what this server replicates.
//!
//! Putting together a command for the stream costs about half of what a lock costs in all, and the
//! server throws it away where there is neither a replica, nor a backlog for one that may come
//! back, nor an append-only file. It does not tell a module so:
//!
//! * an append-only file is seen in the flags of each call, and so is a node of a cluster, whose
//!   slots may be on their way to another node;
//! * a backlog is seen in `INFO replication`, which is looked at from the server's cron for as long
//!   as there is one;
//! * where there was none, a reader comes to be only by a full resynchronisation, whose file a
//!   forked child makes, or by a change of role: from either on the stream counts as read, before
//!   the next command runs. What runs between a replica's first word and the fork is in the file.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::Context;
use super::events::{ServerEvent, subscribe};

/// The backlog is looked at in one of so many rounds of the server's cron.
const ROUNDS_PER_LOOK: u32 = 10;

/// A replica is there, was there lately, or may be for all that is known.
static REPLICAS: AtomicBool = AtomicBool::new(true);
static ROUND: AtomicU32 = AtomicU32::new(0);

/// Starts to follow who reads the stream; before that, it counts as read.
pub(crate) fn watch(context: Context<'_>) {
    subscribe(context, ServerEvent::ForkBorn, expect_replicas);
    subscribe(context, ServerEvent::RoleChanged, expect_replicas);
    subscribe(context, ServerEvent::Cron, look_for_replicas);
}

impl Context<'_> {
    /// False when nothing that is replicated now reaches anybody.
    pub(crate) fn stream_is_read(self) -> bool {
        REPLICAS.load(Ordering::Relaxed) || self.flags().append_only() || self.flags().cluster()
    }
}

fn expect_replicas(_context: Context<'_>) {
    REPLICAS.store(true, Ordering::Relaxed);
}

fn look_for_replicas(context: Context<'_>) {
    if !REPLICAS.load(Ordering::Relaxed) {
        return;
    }
    let round = ROUND.fetch_add(1, Ordering::Relaxed);
    if round.is_multiple_of(ROUNDS_PER_LOOK) && nobody_connected(context) {
        REPLICAS.store(false, Ordering::Relaxed);
    }
}

fn nobody_connected(context: Context<'_>) -> bool {
    if context.flags().replica() {
        return false;
    }
    let zero = |field| context.info_number(c"replication", field) == Some(0);
    zero(c"connected_slaves") && zero(c"repl_backlog_active")
}
