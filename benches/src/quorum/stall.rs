//! Writes of a holder that was stopped for longer than its lease.

use std::thread;
use std::time::Duration;

use testbed::{Expect, Server, Signal, cmd};

use super::{WAYS, servers};
use crate::contenders::{Languages, Task, Team};
use crate::scale::Scale;
use crate::servers::Program;
use crate::table::Table;

const LEASE: Duration = Duration::from_millis(400);
const KEY: &str = "stall";

pub(super) fn table(program: &Program, scale: Scale, languages: &Languages) -> Table {
    let servers = servers(program);
    let register = program.start();
    let mut table = Table::of(
        program,
        "Holders that are stopped beyond their lease, on five servers",
        "Can a holder that has lost its lock still write? A holder's process is stopped (SIGSTOP). After the lease \
         another one gets the lock and writes. Then the first continues and writes too. The register accepts no \
         token lower than its last. Redsync has no token, so all its writes are accepted.",
        &["stalls", "late writes accepted", "refused", "work lost"],
    )
    .counts();
    // The quick one would make no difference here.
    for (language, way, name) in &WAYS[..2] {
        let task = Task {
            language,
            way,
            key: KEY,
            lease_ms: LEASE.as_millis() as u32,
            register: Some(&register),
            ..Task::ALONE
        };
        let times = scale.of(3, 20);
        let pair = Team::start(languages, 2, &servers, &task).map(Team::alone);
        match pair.and_then(|mut pair| taken(&mut pair, &register, times)) {
            Ok(taken) => {
                // A late write that is taken overwrites that of the next holder.
                let counts = [times, taken, times - taken, taken];
                table.once(*name, &counts.map(|count| count as f64));
            }
            Err(why) => table.row(*name, 0, Err(why)),
        }
    }
    table
}

/// How many late writes of so many stalls are taken.
fn taken(pair: &mut [Team], register: &Server, times: usize) -> Result<usize, String> {
    let mut taken = 0;
    cmd!(register.connection(), "FLUSHALL").okay();
    for _ in 0..times {
        let [first, next] = pair else {
            return Err("two contenders are needed".to_owned());
        };
        taken += usize::from(stall(first, next, register)?);
        pair.reverse();
    }
    Ok(taken)
}

/// Whether the register takes the write of the stopped holder. Each has the lock once in a turn.
fn stall(first: &mut Team, next: &mut Team, register: &Server) -> Result<bool, String> {
    let written = || cmd!(register.connection(), "HGET", "register", "text").text();
    let of = |team: &Team| team.ids().next().map(|id| id.to_string());
    first.begin(0.0)?;
    first.expect("held")?;
    first.signal(Signal::STOP);
    // It reads this when it is continued.
    first.tell("write")?;
    thread::sleep(LEASE);
    next.begin(0.0)?;
    next.expect("held")?;
    next.tell("write")?;
    next.end(0.0)?;
    let before = Some(written());
    first.signal(Signal::CONT);
    first.end(0.0)?;
    if before != of(next) {
        return Err(format!("{before:?} has written, not the next holder"));
    }
    Ok(Some(written()) == of(first))
}
