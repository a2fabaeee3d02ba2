//! `owner [SHARED | LIMIT n] [PX ms | EX s] [KEEP ms] [SESSION id] [TOKEN token] [RAISE token]`

use super::keep::{self, KEEP, keep};
use super::lease::{LEASE, lease};
use super::limit::{LIMIT, limit};
use super::session::{self, SESSION, SessionMove, session_move};
use super::syntax::{Argument, Kind, OWNER, TOKEN};
use super::words::{Malformed, ONE_TOKEN, Words, once};
use crate::keeping::Keep;
use crate::{self as core, Limit};

/// The words of a renewal.
pub const RENEW: &[Argument] = &[
    OWNER,
    LIMIT,
    LEASE,
    KEEP,
    SESSION,
    TOKEN,
    Argument::after(c"RAISE", c"raised-token", Kind::Integer).optional(),
];

/// A parsed renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renew<'a> {
    /// What it asks of the grant.
    pub request: core::Renew<'a>,
    /// How many holders the grant is to bear, if the caller says so.
    pub limit: Option<Limit>,
    /// How long the connection may be silent that keeps the grant.
    pub keep: Option<Keep>,
    /// The session that the grant is moved to, or out of it.
    pub session: Option<SessionMove>,
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
    let (mut asked, mut shares, mut kept, mut moved) = (None, None, None, None);
    let (mut token, mut raise) = (None, None);
    while let Some(option) = words.next() {
        if lease(option, words, &mut asked)?
            || limit(option, words, &mut shares)?
            || keep(option, words, &mut kept)?
            || session_move(option, words, &mut moved)?
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
    let into = match moved {
        Some(SessionMove::Into(id)) => Some(id),
        Some(SessionMove::Out) | None => None,
    };
    session::check(into, kept, asked)?;
    let request = match (token, raise) {
        (token, None) => core::Renew::new(owner, asked, token),
        (_, Some(_)) if shares.is_some() => {
            return Err(Malformed::new(
                c"ERR syntax error: RAISE goes with neither SHARED nor LIMIT",
            ));
        }
        (None, Some(_)) => {
            return Err(Malformed::new(
                c"ERR syntax error: RAISE needs TOKEN, the token to raise from",
            ));
        }
        (Some(token), Some(raise)) => core::Renew::raise(owner, asked, token, raise).ok_or(
            Malformed::new(c"ERR RAISE takes a token that is not lower than that of TOKEN"),
        )?,
    };
    Ok(Renew {
        request,
        limit: shares,
        keep: kept,
        session: moved,
    })
}
