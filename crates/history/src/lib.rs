//! What clients of a lock did and saw, and whether a correct lock could have answered so.

mod call;
mod record;

pub use call::{Action, Call, Down, Outcome, Refusal};
pub use record::{ClockStep, Facts, History, Moment, Register, Sighting, Span, Write, Written};
