//! The cost of a share of a lock, beside a lock that one holder has alone.

mod pair;
mod readers;

use redis::Cmd;

use crate::part::Part;
use crate::scale::Scale;
use crate::servers::Program;
use crate::session::HOUR_MS;
use crate::ways::{call, owner};

const KEY: &str = "shared";

/// All parts on each server; the goals are those of the first.
pub(crate) fn measure(programs: &[Program], scale: Scale) -> Part {
    Part::of_each(programs, |program| {
        pair::measure(program, scale).and(readers::measure(program, scale))
    })
}

/// A share for one of many owners.
pub(crate) fn share(key: &str, number: usize) -> Cmd {
    let owner = owner(number);
    call!("LOCK.ACQUIRE {key} {owner} SHARED PX {HOUR_MS}")
}
