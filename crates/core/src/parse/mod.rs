//! Parses the words of a command into a call or an error.
//!
//! The words are the arguments after the command's name and its key. They are read once, from left to right, without a
//! copy.

mod acquire;
mod count;
mod effect;
mod integer;
mod options;
mod release;
mod renew;
mod session;
mod syntax;
mod token;
mod words;

#[cfg(test)]
mod acquire_tests;
#[cfg(test)]
mod tests;

pub use acquire::{ACQUIRE, Acquire, Wait, acquire};
pub use count::{COUNT, count};
pub use effect::{EFFECT, effect};
pub use release::{RELEASE, Release, release};
pub use renew::{RENEW, Renew, renew};
pub use session::{
    SESSION_GRANTS, SESSION_ID, SESSION_OPEN, SESSION_POLL, SessionMove, SessionOpen,
    session_grants, session_id, session_open, session_poll,
};
pub use syntax::{Argument, Kind};
pub use token::{CLOCK, FENCE, clock, fence};
pub use words::{Malformed, Words};
