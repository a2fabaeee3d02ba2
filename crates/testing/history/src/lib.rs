//! The checker: what clients of a lock did and saw, and whether a correct lock could have answered so.
//!
//! It knows the rules of a lock from the contract alone and shares no code with the module, not even the
//! crate `redis-lock-core`: with the rules that it judges, an error in them would be on both sides, and
//! pass. It also asks for less than these rules say, since it sees a call only from outside: a token that
//! nobody was told of, a lease that ended at some moment of two, a reply that was lost.
//!
//! Its tests are small wrong histories, each written by hand (`tests/by_hand`), beside random ones, right and wrong,
//! that a published checker judges too (`order/agreement.rs`). Right ones of the module are what the fault runs bring.

#![forbid(unsafe_code)]

mod call;
mod check;
mod clock;
mod cycles;
mod grants;
mod holds;
mod limit;
mod order;
mod presence;
mod record;
mod report;
mod rules;
mod story;
mod text;

pub use call::{Acquire, Action, Call, Down, Granted, Holder, InSession, Outcome, Refusal, Renew};
pub use check::check;
pub use limit::Limit;
pub use record::{
    ClockStep, Facts, History, Moment, Poll, Register, Renewed, Sighting, Span, Trust, Write,
    Written,
};
pub use report::{Counts, Kind, Mode, Report, Violation, Writes};
