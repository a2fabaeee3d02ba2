//! `[token]` of `LOCK.FENCE` and `token` of `LOCK._CLOCK`

use super::integer;
use super::syntax::{Argument, Kind};
use super::words::{Malformed, Words};
use crate::Token;

/// The words of a fence.
pub const FENCE: &[Argument] = &[Argument::new(c"token", Kind::Integer).optional()];
/// The words of `LOCK._CLOCK`.
pub const CLOCK: &[Argument] = &[Argument::new(c"token", Kind::Integer)];

/// Parses a fence. Returns the token to check, or `None` to ask for the token of the current grant.
///
/// # Errors
///
/// [`Malformed`] for more than one word, or for a word that is not a token.
pub fn fence<'a>(
    words: &mut Words<impl Iterator<Item = &'a [u8]>>,
) -> Result<Option<Token>, Malformed> {
    let Some(token) = words.next() else {
        return Ok(None);
    };
    if words.next().is_some() {
        return Err(Malformed::new(
            c"ERR wrong number of arguments for 'lock.fence' command",
        ));
    }
    let token = integer::parse(token).and_then(|token| Token::new(token.try_into().ok()?));
    token.map(Some).ok_or(Malformed::new(
        c"ERR the token must be a fencing token, an integer from 1 to 9007199254740991",
    ))
}

/// Parses a token for the token clock. Further words are ignored, because they come from a later version.
///
/// # Errors
///
/// [`Malformed`] if the word is not a token.
pub fn clock<'a>(words: &mut Words<impl Iterator<Item = &'a [u8]>>) -> Result<Token, Malformed> {
    words.integer(
        Token::new,
        c"ERR the token must be an integer from 1 to 9007199254740991",
    )
}
