//! `owner [PX ms | EX s] [TOKEN token] [RAISE token]`

use super::lease::{LEASE, lease};
use super::syntax::{Argument, Kind, OWNER, TOKEN};
use super::words::{Malformed, ONE_TOKEN, Words, once};
use crate::Renew;

/// The words of a renewal.
pub const RENEW: &[Argument] = &[
    OWNER,
    LEASE,
    TOKEN,
    Argument::after(c"RAISE", c"raised-token", Kind::Integer).optional(),
];

/// Parses a renewal.
///
/// # Errors
///
/// [`Malformed`] for the first wrong word.
pub fn renew<'a>(
    words: &mut Words<impl Iterator<Item = &'a [u8]>>,
) -> Result<Renew<'a>, Malformed> {
    let owner = words.owner()?;
    let (mut asked, mut token, mut raise) = (None, None, None);
    while let Some(option) = words.next() {
        if lease(option, words, &mut asked)? {
            continue;
        }
        if option.eq_ignore_ascii_case(b"TOKEN") {
            once(&mut token, words.token()?, ONE_TOKEN)?;
        } else if option.eq_ignore_ascii_case(b"RAISE") {
            once(
                &mut raise,
                words.raise()?,
                c"ERR syntax error: RAISE is given twice",
            )?;
        } else {
            return Err(Malformed::unknown_option(option));
        }
    }
    match (token, raise) {
        (token, None) => Ok(Renew::new(owner, asked, token)),
        (None, Some(_)) => Err(Malformed::new(
            c"ERR syntax error: RAISE needs TOKEN, the token to raise from",
        )),
        (Some(token), Some(raise)) => Renew::raise(owner, asked, token, raise).ok_or(
            Malformed::new(c"ERR RAISE takes a token that is not lower than that of TOKEN"),
        ),
    }
}
