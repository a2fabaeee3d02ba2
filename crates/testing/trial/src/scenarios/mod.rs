//! The scenarios that the clients are put through.

mod addresses;
mod cancelling;
mod clusters;
mod ends;
mod load;
mod losses;
mod networks;
mod ordinary;
mod refusals;
mod releases;
mod servers;
mod sessions;

use crate::failure::Verdict;
use crate::stage::Stage;
use testbed::{Expect, cmd};

/// One of them.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// In half a line.
    pub(crate) about: &'static str,
    /// It takes the processor for itself.
    pub(crate) is_heavy: bool,
    pub(crate) play: fn(&Stage) -> Verdict,
}

const fn light(name: &'static str, play: fn(&Stage) -> Verdict, about: &'static str) -> Scenario {
    Scenario {
        name,
        about,
        is_heavy: false,
        play,
    }
}

const fn heavy(name: &'static str, play: fn(&Stage) -> Verdict, about: &'static str) -> Scenario {
    Scenario {
        name,
        about,
        is_heavy: true,
        ..light(name, play, about)
    }
}

/// A number of the server's INFO stats.
fn count(server: &mut testbed::redis::Connection, field: &str) -> u64 {
    let info = cmd!(*server, "INFO").text();
    let line = info.lines().find_map(|line| {
        line.strip_prefix(field)?
            .strip_prefix(':')
            .map(str::to_owned)
    });
    line.and_then(|text| text.trim().parse().ok())
        .expect("a count")
}

/// All of them; the long ones first, so that the others fit in beside.
pub(crate) const ALL: &[Scenario] = &[
    light(
        "failover",
        clusters::failover,
        "the primary is killed, Sentinel names another",
    ),
    light(
        "moved-address",
        addresses::moved,
        "the address leads to a new primary, connections to the old one stay",
    ),
    light(
        "slot-move",
        clusters::slot_move,
        "a held and awaited lock moves to another node",
    ),
    light(
        "hung-node",
        clusters::hung_node,
        "one node of a cluster hangs, locks on the others go on",
    ),
    light(
        "session-silent",
        sessions::silent,
        "a frozen program's session ends, its locks stand",
    ),
    light(
        "stall-order",
        sessions::stall_order,
        "the server stalls, waiters of two programs keep their order",
    ),
    light(
        "frozen-waiter",
        sessions::frozen_waiter,
        "a frozen program is passed over and keeps its place",
    ),
    light(
        "poll-cut",
        sessions::poll_cut,
        "polling connections are killed: nothing is lost, no place either",
    ),
    light(
        "poll-taken-over",
        sessions::poll_taken_over,
        "a newer connection polls the session for a moment",
    ),
    light(
        "poll-silent",
        sessions::poll_silent,
        "the reply to a POLL, with its events, never comes",
    ),
    light(
        "session-killed",
        sessions::killed,
        "an operator ends the session: all is lost and told, waits queue again",
    ),
    light(
        "strays",
        sessions::strays,
        "a request that arrives after it was given up",
    ),
    light(
        "unfinished-release",
        releases::unfinished,
        "a release that does not get through is sent by the loop",
    ),
    light(
        "refused-release",
        releases::refused,
        "the right to release is missing: the session is left",
    ),
    light(
        "late-loss",
        sessions::late_loss,
        "a loss is reported before the reply that names the grant",
    ),
    light(
        "signals",
        ends::signals,
        "SIGTERM and SIGINT at random moments",
    ),
    light(
        "silent-replies",
        networks::silent_replies,
        "requests get through and no reply comes",
    ),
    light(
        "silent-network",
        networks::silent_network,
        "no byte gets through",
    ),
    light(
        "forgotten-connections",
        networks::forgotten,
        "the network forgets the connections there are; new ones work",
    ),
    light(
        "hung-long",
        servers::hung_long,
        "the server hangs for longer than a lease",
    ),
    light(
        "hung-shortly",
        servers::hung_shortly,
        "the server hangs for less than a lease",
    ),
    light(
        "killed-server",
        servers::killed,
        "the server is gone for good",
    ),
    light(
        "restart-with-data",
        servers::restart_with_data,
        "kill -9 and restart, with an append-only file",
    ),
    light(
        "restart-without-data",
        servers::restart_without_data,
        "kill -9 and restart, nothing is left",
    ),
    light(
        "killed-worker",
        ends::killed_worker,
        "kill -9 of the client: free a lease later",
    ),
    light(
        "fork",
        ends::fork,
        "a child holds nothing and takes nothing away",
    ),
    light(
        "closed",
        ends::closed,
        "close gives all back and calls all off",
    ),
    light(
        "resets-in-request",
        networks::resets_in_request,
        "connections reset in the middle of requests",
    ),
    light(
        "resets-in-reply",
        networks::resets_in_reply,
        "connections reset in place of replies",
    ),
    light(
        "busy-script",
        refusals::busy_script,
        "a script keeps the server busy",
    ),
    light(
        "full-maxclients",
        refusals::full_maxclients,
        "the server takes no more clients",
    ),
    light(
        "no-writes",
        refusals::no_writes,
        "NOREPLICAS, then MISCONF, for a while",
    ),
    light(
        "no-permission",
        refusals::no_permission,
        "NOPERM, for a while",
    ),
    light(
        "wrong-password",
        refusals::wrong_password,
        "fails at once and does not knock on",
    ),
    light(
        "missing-module",
        refusals::missing_module,
        "the server has no locks",
    ),
    light("overwritten", losses::overwritten, "SET over a held lock"),
    light("deleted", losses::deleted, "DEL over held locks"),
    light(
        "fixed-lease",
        losses::fixed_lease,
        "a lease that nobody renews ends, and is told",
    ),
    light(
        "ordinary",
        ordinary::ordinary,
        "alone, shared, permits, waits in line",
    ),
    light("tasks", ordinary::tasks, "re-entry, deadlock, not alone"),
    light(
        "cancel-at-grant",
        cancelling::at_the_grant,
        "a release and a cancel at the same moment",
    ),
    heavy(
        "many-held",
        load::many_held,
        "thousands of locks held over a stall of 3 s",
    ),
    heavy("crowd", load::crowd, "hundreds of tasks on ten locks"),
    heavy(
        "growth",
        load::growth,
        "memory, connections, threads over thousands of locks and waits",
    ),
];
