//! Detects whether anybody reads the replication stream of this server.
//!
//! Building a command for the stream is expensive, and the server drops the command if nobody reads the stream.
//! `docs/design.md` ("Replication by effects") explains the detection. The stream of a cluster node always counts as
//! read, because a slot may be migrating to another node.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::Context;
use super::events::{ServerEvent, subscribe};

/// `INFO replication` is read once per this many runs of the server's cron.
const CRON_RUNS_PER_CHECK: u32 = 10;

/// False if the server has neither a replica nor a backlog; true if in doubt.
static REPLICAS: AtomicBool = AtomicBool::new(true);
static CRON_RUNS: AtomicU32 = AtomicU32::new(0);

/// Starts to watch for readers of the stream. Until then the stream counts as read.
pub(crate) fn watch(context: Context<'_>) {
    subscribe(context, ServerEvent::Forked, expect_replicas);
    subscribe(context, ServerEvent::RoleChanged, expect_replicas);
    subscribe(context, ServerEvent::Cron, look_for_replicas);
}

impl Context<'_> {
    /// Returns false if nobody would receive what is replicated now.
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
    let run = CRON_RUNS.fetch_add(1, Ordering::Relaxed);
    if run.is_multiple_of(CRON_RUNS_PER_CHECK) && nobody_connected(context) {
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
