//! Leases that the server renews for sessions: what that costs, and how soon a crash is over.

mod crash;
mod renewals;

use redis::Cmd;

use crate::part::Part;
use crate::scale::Scale;
use crate::servers::Program;
use crate::toolchains;
use crate::ways::command;

pub(crate) use crash::{ROLE, hold};

/// All parts on each server; the goals are those of the first.
pub(crate) fn measure(programs: &[Program], scale: &Scale) -> Part {
    let java = toolchains::build("java");
    Part::of_each(programs, |program| {
        renewals::measure(program, scale).and(crash::measure(program, &java, scale))
    })
}

fn acquire(session: i64, key: &str, owner: &str, lease_ms: u32) -> Cmd {
    let mut call = command(&["LOCK.ACQUIRE", key, owner, "PX"], &[lease_ms]);
    call.arg("SESSION").arg(session);
    call
}
