//! What a share of a lock costs, beside a lock that one holder has alone.

mod memory;
mod pair;
mod readers;

use redis::Cmd;

use crate::part::Part;
use crate::scale::Scale;
use crate::servers::Program;
use crate::ways::{OWNER, command};

const KEY: &str = "shared";
const HOUR_MS: u32 = 3_600_000;

/// All parts on each server; the goals are those of the first.
pub(crate) fn measure(programs: &[Program], scale: &Scale) -> Part {
    let mut all = Part::default();
    for (index, program) in programs.iter().enumerate() {
        let mut part = pair::measure(program, scale);
        part.add(memory::measure(program, scale));
        part.add(readers::measure(program, scale));
        if index > 0 {
            part.goals.clear();
        }
        all.add(part);
    }
    all
}

/// A share for one of many owners, whose names are as long as [`OWNER`].
fn share(key: &str, number: usize) -> Cmd {
    let owner = format!("{}{number:08}", &OWNER[..OWNER.len() - 8]);
    command(&["LOCK.ACQUIRE", key, &owner, "SHARED", "PX"], &[HOUR_MS])
}
