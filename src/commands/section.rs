//! The section `lock` of `INFO`.

use std::ffi::CStr;

use crate::locks::{last_token, monotonic, now};
use crate::server::{Context, InfoWriter, values_alive, values_flushed};
use crate::statistics::{self, Counter, TimesSummary, counted};
use crate::waiting;

/// The counters and what they are called; the server puts `lock_` before each name.
const COUNTERS: [(Counter, &CStr); 12] = [
    (Counter::Grants, c"grants"),
    (Counter::Reentries, c"reentries"),
    (Counter::Renewals, c"renewals"),
    (Counter::Releases, c"releases"),
    (Counter::Refusals, c"refusals"),
    (Counter::HandOffs, c"hand_offs"),
    (Counter::WaitTimeOuts, c"wait_timeouts"),
    (Counter::WaitsGivenUp, c"waits_given_up"),
    (Counter::Expirations, c"expirations"),
    (Counter::MaxWaitersRejections, c"max_waiters_rejections"),
    (Counter::FenceChecks, c"fence_checks"),
    (Counter::FencedRefusals, c"fenced_refusals"),
];

/// Writes the fields. In a crash report there is no context, and only what needs none is told.
pub(super) fn write(section: &mut InfoWriter, context: Option<Context<'_>>) {
    section.field(c"held", values_alive());
    let last_token = last_token().map_or(0, |token| token.number().cast_signed());
    section.field(c"last_token", last_token);
    for (counter, name) in COUNTERS {
        section.field(name, counted(counter));
    }
    let removals = counted(Counter::Removals) + values_flushed();
    section.field(c"forced_removals", removals);
    let Some(context) = context else {
        return;
    };
    let (waiting, longest_queue) = waiting::queue_sizes(context);
    section.field(c"waiting", integer(waiting as u64));
    section.field(c"longest_queue", integer(longest_queue as u64));
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
