//! `SHARED | LIMIT n`

use super::syntax::{Argument, Kind};
use super::words::{Malformed, Words, once};
use crate::Limit;

/// The words of a limit.
pub(super) const LIMIT: Argument = Argument::new(
    c"sharing",
    Kind::OneOf(&[
        Argument::after(c"SHARED", c"shared", Kind::Flag),
        Argument::after(c"LIMIT", c"limit", Kind::Integer),
    ]),
)
.optional()
.since(c"0.2.0");

/// Parses a limit, if `option` begins one.
pub(super) fn limit<'a>(
    option: &[u8],
    words: &mut Words<impl Iterator<Item = &'a [u8]>>,
    found: &mut Option<Limit>,
) -> Result<bool, Malformed> {
    let limit = if option.eq_ignore_ascii_case(b"SHARED") {
        Limit::NONE
    } else if option.eq_ignore_ascii_case(b"LIMIT") {
        words.limit()?
    } else {
        return Ok(false);
    };
    once(
        found,
        limit,
        c"ERR syntax error: only one of SHARED and LIMIT can be given, and only once",
    )?;
    Ok(true)
}
