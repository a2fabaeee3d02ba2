//! `[PX milliseconds | EX seconds]` of an acquire and of a renewal

use std::ffi::CStr;

use super::syntax::{Argument, Kind};
use super::words::{Malformed, Words, once};
use crate::Lease;

pub(super) const LEASE: Argument = Argument::new(
    c"lease",
    Kind::OneOf(&[
        Argument::after(c"PX", c"milliseconds", Kind::Integer),
        Argument::after(c"EX", c"seconds", Kind::Integer),
    ]),
)
.optional();

const ONE_LEASE: &CStr = c"ERR syntax error: one lease at most, as PX milliseconds or EX seconds";
const PX: &CStr = c"ERR PX takes the lease in milliseconds, an integer from 1 to lock.max-lease-ms";
const EX: &CStr =
    c"ERR EX takes the lease in seconds, an integer from 1 to lock.max-lease-ms / 1000";

/// Parses a lease into `lease` if `option` introduces one; false for another option.
pub(super) fn lease<'a>(
    option: &[u8],
    words: &mut Words<impl Iterator<Item = &'a [u8]>>,
    lease: &mut Option<Lease>,
) -> Result<bool, Malformed> {
    let (unit_ms, error) = if option.eq_ignore_ascii_case(b"PX") {
        (1, PX)
    } else if option.eq_ignore_ascii_case(b"EX") {
        (1000, EX)
    } else {
        return Ok(false);
    };
    let value = words.lease(unit_ms).ok_or(Malformed::new(error))?;
    once(lease, value, ONE_LEASE)?;
    Ok(true)
}
