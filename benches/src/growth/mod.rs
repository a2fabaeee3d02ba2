//! How costs grow with the number of locks, of waiters, and of leases that end at once.

mod leases;
mod many;
mod queue;
mod units;

use crate::part::{Part, Scale};
use crate::servers::Program;

pub(crate) use many::measure as many;

/// The parts on one server.
pub(crate) fn measure(program: &Program, scale: Scale) -> Part {
    let units = units::measure(program, scale);
    let queue = queue::measure(program, scale);
    units.and(queue).and(leases::measure(program, scale))
}
