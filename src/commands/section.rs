//! The section `lock` of `INFO`.

use std::ffi::CStr;

use crate::locks::{last_token, max_waiters_total, monotonic, now};
use crate::server::{Context, InfoWriter, entries_alive, entries_flushed, values_alive};
use crate::statistics::{self, COUNTERS, Counter, TimesSummary, counted};
use crate::{sessions, waiting};

/// Writes the fields. In a crash report there is no context, so only the fields that need none are written.
pub(super) fn write(section: &mut InfoWriter, context: Option<Context<'_>>) {
    section.field(c"held", values_alive());
    section.field(c"holders", entries_alive());
    let last_token = last_token().map_or(0, |token| token.number().cast_signed());
    section.field(c"last_token", last_token);
    for (counter, name) in COUNTERS {
        // A flush deletes values without naming their keys, so they are counted separately.
        let flushed = match counter {
            Counter::Removals => entries_flushed(),
            _ => 0,
        };
        section.field(name, counted(*counter) + flushed);
    }
    let Some(context) = context else {
        return;
    };
    let counts = sessions::counts(context);
    section.field(c"sessions", integer(counts.sessions as u64));
    section.field(c"sessions_detached", integer(counts.detached as u64));
    section.field(c"session_grants", integer(counts.grants as u64));
    section.field(c"session_renewals", integer(counts.renewals));
    section.field(c"session_losses", integer(counts.losses));
    section.field(c"sessions_silent", integer(counts.silent));
    let queues = waiting::queue_sizes(context);
    section.field(c"queued", integer(queues.queued as u64));
    section.field(c"waiting", integer(queues.blocked as u64));
    section.field(c"max_waiting", integer(max_waiters_total() as u64));
    section.field(c"longest_queue", integer(queues.longest as u64));
    let waits = statistics::wait_times(context, monotonic());
    let names = [c"wait_ms_p50", c"wait_ms_p99", c"wait_ms_max"];
    write_times(section, names, waits);
    let holds = statistics::hold_times(context, now(context).millis());
    let names = [c"hold_ms_p50", c"hold_ms_p99", c"hold_ms_max"];
    write_times(section, names, holds);
}

fn write_times(section: &mut InfoWriter, names: [&CStr; 3], times: TimesSummary) {
    for (name, ms) in names.into_iter().zip([times.p50, times.p99, times.max]) {
        section.field(name, integer(ms));
    }
}

fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
