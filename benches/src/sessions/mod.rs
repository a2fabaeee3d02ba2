//! Leases that the server renews for sessions: what that costs, and how soon a crash is over.

mod crash;
mod renewals;

use crate::contenders::languages;
use crate::part::Part;
use crate::scale::Scale;
use crate::servers::Program;

/// All parts on each server; the goals are those of the first.
pub(crate) fn measure(programs: &[Program], scale: Scale) -> Part {
    let languages = languages(&["rust", "java"]);
    Part::of_each(programs, |program| {
        renewals::measure(program).and(crash::measure(program, &languages, scale))
    })
}
