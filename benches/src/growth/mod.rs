//! How costs grow with the number of locks, of waiters, and of leases that end at once.

mod leases;
mod many;
mod queue;

use crate::part::Part;
use crate::scale::Scale;
use crate::servers::Program;

pub(crate) use many::measure as many;

/// The parts on one server.
pub(crate) fn measure(program: &Program, scale: &Scale) -> Part {
    queue::measure(program, scale).and(leases::measure(program, scale))
}
