//! What clients of a lock did and saw, and whether a correct lock could have answered so.

#![forbid(unsafe_code)]

#[cfg(test)]
extern crate self as history;

mod call;
mod check;
mod clock;
mod grants;
mod holds;
mod order;
mod record;
mod report;
mod rules;
mod story;
mod text;

pub use call::{Action, Call, Down, Outcome, Refusal};
pub use check::check;
pub use record::{
    ClockStep, Facts, History, Moment, Register, Sighting, Span, Trust, Write, Written,
};
pub use report::{Counts, Kind, Mode, Report, Violation, Writes};
