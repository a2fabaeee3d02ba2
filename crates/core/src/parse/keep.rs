//! `KEEP ms`

use super::syntax::{Argument, Kind};
use super::words::{Malformed, Words, once};
use crate::Lease;
use crate::keeping::{Keep, can_keep};

/// The words of keeping.
pub(super) const KEEP: Argument = Argument::after(c"KEEP", c"silence-milliseconds", Kind::Integer)
    .optional()
    .since(c"0.2.0");

/// Parses `KEEP`, if `option` is that word.
pub(super) fn keep<'a>(
    option: &[u8],
    words: &mut Words<impl Iterator<Item = &'a [u8]>>,
    found: &mut Option<Keep>,
) -> Result<bool, Malformed> {
    if !option.eq_ignore_ascii_case(b"KEEP") {
        return Ok(false);
    }
    let keep = words.keep()?;
    once(found, keep, c"ERR syntax error: KEEP is given twice")?;
    Ok(true)
}

/// Checks that a lease that is given can be kept.
pub(super) fn check(keep: Option<Keep>, lease: Option<Lease>) -> Result<(), Malformed> {
    match (keep, lease) {
        (Some(Keep::For(_)), Some(lease)) if !can_keep(lease) => Err(Malformed::new(
            c"ERR KEEP takes a lease of 1000 milliseconds or more",
        )),
        _ => Ok(()),
    }
}
