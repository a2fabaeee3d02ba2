//! `owner token holds lease-ms deadline-ms` of `LOCK._APPLY`

use super::syntax::{Argument, Kind, OWNER};
use super::words::{Malformed, Words};
use crate::{Deadline, Grant, Held, Lease};

/// The words of the state of a lock.
pub const EFFECT: &[Argument] = &[
    OWNER,
    Argument::new(c"token", Kind::Integer),
    Argument::new(c"holds", Kind::Integer),
    Argument::new(c"lease-milliseconds", Kind::Integer),
    Argument::new(c"deadline-unix-time-milliseconds", Kind::Integer),
];

/// Stands for no deadline.
pub const NO_DEADLINE: i64 = -1;

/// Parses the state of a lock. Further words come from a later version and are ignored.
///
/// # Errors
///
/// [`Malformed`] for the first wrong word.
pub fn effect<'a>(
    words: &mut Words<impl Iterator<Item = &'a [u8]>>,
) -> Result<Held<'a>, Malformed> {
    Ok(Held {
        owner: words.owner()?,
        grant: Grant {
            token: words
                .fencing_token(c"ERR the token must be an integer from 1 to 9007199254740991")?,
            holds: words.holds(c"ERR the hold count must be an integer from 1 to 2147483647")?,
            // `lock.max-lease-ms` does not apply: it limits requests, not leases that were granted.
            lease: words
                .unsigned()
                .and_then(Lease::from_millis)
                .ok_or(Malformed::new(
                    c"ERR the lease must be milliseconds, an integer from 1 to 315360000000",
                ))?,
        },
        deadline: match words.integer() {
            Some(NO_DEADLINE) => Deadline::Never,
            Some(at @ 0..) => Deadline::At(at.unsigned_abs()),
            _ => {
                return Err(Malformed::new(
                    c"ERR the deadline must be milliseconds since 1970, or -1 for none",
                ));
            }
        },
    })
}
