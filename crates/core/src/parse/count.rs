//! `[COUNT n]`

use super::syntax::{Argument, Kind};
use super::words::{Malformed, Words, once};

/// The words of a command that returns a list.
pub const COUNT: &[Argument] = &[Argument::after(c"COUNT", c"count", Kind::Integer).optional()];

/// Parses the maximum number of results; `None` when it is not given.
///
/// # Errors
///
/// [`Malformed`] for the first wrong word.
pub fn count<'a>(
    words: &mut Words<impl Iterator<Item = &'a [u8]>>,
) -> Result<Option<usize>, Malformed> {
    let mut count = None;
    while let Some(option) = words.next() {
        if !option.eq_ignore_ascii_case(b"COUNT") {
            return Err(Malformed::unknown_option(option));
        }
        let given = words.count()?;
        once(&mut count, given, c"ERR syntax error: COUNT is given twice")?;
    }
    Ok(count)
}
