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

/// One that only waits.
const fn light(name: &'static str, play: fn(&Stage) -> Verdict) -> Scenario {
    Scenario {
        name,
        about: "",
        is_heavy: false,
        play,
    }
}

const fn heavy(name: &'static str, play: fn(&Stage) -> Verdict) -> Scenario {
    Scenario {
        is_heavy: true,
        ..light(name, play)
    }
}

impl Scenario {
    const fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
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
    light("failover", clusters::failover).about("the primary is killed, Sentinel names another"),
    light("moved-address", addresses::moved)
        .about("the address leads to a new primary, connections to the old one stay"),
    light("slot-move", clusters::slot_move).about("a held and awaited lock moves to another node"),
    light("hung-node", clusters::hung_node)
        .about("one node of a cluster hangs, locks on the others go on"),
    light("session-silent", sessions::silent)
        .about("a frozen program's session ends, its locks stand"),
    light("stall-order", sessions::stall_order)
        .about("the server stalls, waiters of two programs keep their order"),
    light("frozen-waiter", sessions::frozen_waiter)
        .about("a frozen program is passed over and keeps its place"),
    light("poll-cut", sessions::poll_cut)
        .about("polling connections are killed: nothing is lost, no place either"),
    light("poll-taken-over", sessions::poll_taken_over)
        .about("a newer connection polls the session for a moment"),
    light("poll-silent", sessions::poll_silent)
        .about("the reply to a POLL, with its events, never comes"),
    light("session-killed", sessions::killed)
        .about("an operator ends the session: all is lost and told, waits queue again"),
    light("strays", sessions::strays).about("a request that arrives after it was given up"),
    light("unfinished-release", releases::unfinished)
        .about("a release that does not get through is sent by the loop"),
    light("refused-release", releases::refused)
        .about("the right to release is missing: the session is left"),
    light("late-loss", sessions::late_loss)
        .about("a loss is reported before the reply that names the grant"),
    light("signals", ends::signals).about("SIGTERM and SIGINT at random moments"),
    light("silent-replies", networks::silent_replies)
        .about("requests get through and no reply comes"),
    light("silent-network", networks::silent_network).about("no byte gets through"),
    light("forgotten-connections", networks::forgotten)
        .about("the network forgets the connections there are; new ones work"),
    light("hung-long", servers::hung_long).about("the server hangs for longer than a lease"),
    light("hung-shortly", servers::hung_shortly).about("the server hangs for less than a lease"),
    light("killed-server", servers::killed).about("the server is gone for good"),
    light("restart-with-data", servers::restart_with_data)
        .about("kill -9 and restart, with an append-only file"),
    light("restart-without-data", servers::restart_without_data)
        .about("kill -9 and restart, nothing is left"),
    light("killed-worker", ends::killed_worker).about("kill -9 of the client: free a lease later"),
    light("fork", ends::fork).about("a child holds nothing and takes nothing away"),
    light("closed", ends::closed).about("close gives all back and calls all off"),
    light("resets-in-request", networks::resets_in_request)
        .about("connections reset in the middle of requests"),
    light("resets-in-reply", networks::resets_in_reply)
        .about("connections reset in place of replies"),
    light("busy-script", refusals::busy_script).about("a script keeps the server busy"),
    light("full-maxclients", refusals::full_maxclients).about("the server takes no more clients"),
    light("no-writes", refusals::no_writes).about("NOREPLICAS, then MISCONF, for a while"),
    light("no-permission", refusals::no_permission).about("NOPERM, for a while"),
    light("wrong-password", refusals::wrong_password).about("fails at once and does not knock on"),
    light("missing-module", refusals::missing_module).about("the server has no locks"),
    light("overwritten", losses::overwritten).about("SET over a held lock"),
    light("deleted", losses::deleted).about("DEL over held locks"),
    light("fixed-lease", losses::fixed_lease).about("a lease that nobody renews ends, and is told"),
    light("ordinary", ordinary::ordinary).about("alone, shared, permits, waits in line"),
    light("tasks", ordinary::tasks).about("re-entry, deadlock, not alone"),
    light("cancel-at-grant", cancelling::at_the_grant)
        .about("a release and a cancel at the same moment"),
    heavy("many-held", load::many_held).about("thousands of locks held over a stall of 3 s"),
    heavy("crowd", load::crowd).about("hundreds of tasks on ten locks"),
    heavy("growth", load::growth)
        .about("memory, connections, threads over thousands of locks and waits"),
];
