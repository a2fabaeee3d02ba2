//! Writes of a holder that was stopped for longer than its lease.

use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use testbed::{Expect, Server, cmd};

use super::{WAYS, Way, servers};
use crate::process::Process;
use crate::scale::Scale;
use crate::servers::Program;
use crate::table::Table;
use crate::toolchains::Language;

const LEASE: Duration = Duration::from_millis(400);
const TIMEOUT: Duration = Duration::from_secs(30);

const COLUMNS: [&str; 4] = ["stalls", "late writes taken", "refused", "work lost"];

/// The counts of the outcomes.
#[derive(Default)]
struct Sums {
    stalls: usize,
    taken: usize,
    refused: usize,
    /// The next holder's write was overwritten.
    lost: usize,
}

pub(super) fn table(program: &Program, scale: &Scale, go: &Result<Language, String>) -> Table {
    let servers = servers(program);
    let register = program.start();
    let mut table = Table::of(
        program,
        "Holders that are stopped beyond their lease, on five servers",
        "Whether a holder that has lost its lock can still write. A holder's process is stopped (SIGSTOP). After the lease another one gets the lock and writes. Then \
         the first continues and writes too. The register accepts no token lower than its last; redsync \
         has no token, so all its writes are accepted.",
        &COLUMNS,
    );
    // The quick one would make no difference here.
    let ways = WAYS.iter().filter(|(way, _)| *way != Way::RedsyncQuick);
    for (way, name) in ways {
        let sums = [0, 1]
            .map(|number| way.start(&servers, &register, go, &format!("stall-{number}")))
            .into_iter()
            .collect::<Result<Vec<_>, _>>()
            .and_then(|mut pair| stalls(&mut pair, &register, scale.stalls));
        match sums {
            Ok(sums) => {
                let counts = [sums.stalls, sums.taken, sums.refused, sums.lost];
                table.count(*name, counts.into());
            }
            Err(why) => table.left_out(*name, why),
        }
    }
    table
}

fn stalls(pair: &mut [Process], register: &Server, times: usize) -> Result<Sums, String> {
    let mut sums = Sums::default();
    cmd!(register.connection(), "FLUSHALL").okay();
    for _ in 0..times {
        let (first, next) = pair.split_at_mut(1);
        let written = stall(&mut first[0], &mut next[0])?;
        sums.stalls += 1;
        match written.as_str() {
            "taken" => sums.taken += 1,
            "refused" => sums.refused += 1,
            other => return Err(format!("it says {other:?}")),
        }
        let text = cmd!(register.connection(), "HGET", "stall", "text").text();
        sums.lost += usize::from(text != "next");
        pair.reverse();
    }
    Ok(sums)
}

/// Returns the register's answer to the write of the stopped holder.
fn stall(first: &mut Process, next: &mut Process) -> Result<String, String> {
    let lock = format!("lock stall {}", LEASE.as_millis());
    ask(first, &lock)?;
    signal(first, Signal::STOP)?;
    // It reads this when it is continued.
    first.send("write stall first")?;
    thread::sleep(LEASE);
    ask(next, &lock)?;
    let written = ask(next, "write stall next")?;
    signal(first, Signal::CONT)?;
    if written != "taken" {
        return Err(format!("the next one's write is {written}"));
    }
    let late = first.receive(TIMEOUT)?;
    ask(next, "unlock")?;
    ask(first, "unlock")?;
    Ok(late)
}

fn ask(process: &mut Process, line: &str) -> Result<String, String> {
    process.send(line)?;
    process.receive(TIMEOUT)
}

fn signal(process: &Process, signal: Signal) -> Result<(), String> {
    let sent = kill_process(Pid::from_child(process.child()), signal);
    sent.map_err(|error| format!("a signal: {error}"))
}
