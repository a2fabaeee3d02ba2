//! Calls that wait in sessions, without connections.

mod hand_offs;
mod many;

use crate::part::Part;
use crate::scale::Scale;
use crate::servers::Program;

pub(crate) fn measure(program: &Program, scale: &Scale) -> Part {
    many::measure(program, scale).and(hand_offs::measure(program, scale))
}
