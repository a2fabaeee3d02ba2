//! What a call asks for: the words of a command in, a request or an error out.
//!
//! Plain functions, like the rules: no server, no settings but those handed in. The
//! words are those behind the command's name and its key; each is looked at once, from left to
//! right, and kept where it lies.
#![forbid(unsafe_code)]

mod acquire;
mod count;
mod effect;
mod integer;
mod lease;
mod release;
mod renew;
mod syntax;
mod token;
mod words;

#[cfg(test)]
mod tests;

pub use acquire::{ACQUIRE, Acquire, acquire};
pub use count::{COUNT, count};
pub use effect::{EFFECT, NO_DEADLINE, effect};
pub use release::{RELEASE, release};
pub use renew::{RENEW, renew};
pub use syntax::{Argument, Kind};
pub use token::{CLOCK, FENCE, clock, fence};

pub use words::{Malformed, Words};
