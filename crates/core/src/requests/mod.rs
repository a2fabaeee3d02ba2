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
mod release;
mod renew;
mod token;

mod words;

pub use acquire::{Acquire, acquire};
pub use count::count;
pub use effect::{NO_DEADLINE, effect};
pub use release::release;
pub use renew::renew;
pub use token::{clock, fence};

pub use words::{Malformed, Words};
