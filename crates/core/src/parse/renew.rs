//! `owner [SHARED | LIMIT n] [PX ms | EX s] [KEEP ms] [TOKEN token] [RAISE token]`

use super::keep::{self, KEEP, keep};
use super::lease::{LEASE, lease};
use super::limit::{LIMIT, limit};
use super::syntax::{Argument, Kind, OWNER, TOKEN};
use super::words::{Malformed, ONE_TOKEN, Words, once};
use crate::keeping::Keep;

/// The words of a renewal.
pub const RENEW: &[Argument] = &[
    OWNER,
    LIMIT,
    LEASE,
    KEEP,
    TOKEN,
    Argument::after(c"RAISE", c"raised-token", Kind::Integer).optional(),
];

/// A parsed renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renew<'a> {
    /// What it asks of the grant.
    pub request: crate::Renew<'a>,
    /// How long the connection that keeps the grant may be silent.
    pub keep: Option<Keep>,
}

/// Parses a renewal.
///
/// # Errors
///
/// [`Malformed`] for the first wrong word.
pub fn renew<'a>(
    words: &mut Words<impl Iterator<Item = &'a [u8]>>,
) -> Result<Renew<'a>, Malformed> {
    let owner = words.owner()?;
    let (mut asked, mut limited, mut kept) = (None, None, None);
    let (mut token, mut raise) = (None, None);
    while let Some(option) = words.next() {
        if lease(option, words, &mut asked)?
            || limit(option, words, &mut limited)?
            || keep(option, words, &mut kept)?
        {
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
    keep::check(kept, asked)?;
    let request = match (token, raise) {
        (token, None) => crate::Renew::new(owner, limited, asked, token),
        (_, Some(_)) if limited.is_some() => {
            return Err(Malformed::new(
                c"ERR syntax error: RAISE goes with neither SHARED nor LIMIT",
            ));
        }
        (None, Some(_)) => {
            return Err(Malformed::new(
                c"ERR syntax error: RAISE needs TOKEN, the token to raise from",
            ));
        }
        (Some(token), Some(raise)) => crate::Renew::raise(owner, asked, token, raise).ok_or(
            Malformed::new(c"ERR RAISE takes a token that is not lower than that of TOKEN"),
        )?,
    };
    Ok(Renew {
        request,
        keep: kept,
    })
}
