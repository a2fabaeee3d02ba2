//! Leases that the server renews: what that costs, and how soon a crash is over.

mod crash;
mod renewals;

use crate::part::Part;
use crate::scale::Scale;
use crate::servers::Program;
use crate::toolchains;

pub(crate) use crash::{ROLE, keep};

/// How long a keeper may be silent.
const SILENCE_MS: u32 = 60_000;

/// All parts on each server; the goals are those of the first.
pub(crate) fn measure(programs: &[Program], scale: &Scale) -> Part {
    let java = toolchains::build("java");
    let mut all = Part::default();
    for (index, program) in programs.iter().enumerate() {
        let mut part = renewals::measure(program, scale);
        part.add(crash::measure(program, &java, scale));
        if index > 0 {
            part.goals.clear();
        }
        all.add(part);
    }
    all
}
