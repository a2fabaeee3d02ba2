//! `owner [SHARED | LIMIT n] [PX ms | EX s] [SESSION id] [TOKEN token] [RAISE token]`

use super::options::{LEASE, LIMIT, Options};
use super::session::{SESSION, SessionMove};
use super::syntax::{Argument, Kind, OWNER, TOKEN};
use super::words::{Malformed, Words, once};

/// The words of a renewal.
pub const RENEW: &[Argument] = &[
    OWNER,
    LIMIT,
    LEASE,
    SESSION,
    TOKEN,
    Argument::after(c"RAISE", c"raised-token", Kind::Integer).optional(),
];

/// A parsed renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renew<'a> {
    /// The requested changes of the grant.
    pub request: crate::Renew<'a>,
    /// Into or out of which session the grant moves.
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
    let mut options = Options::default();
    let mut raise = None;
    while let Some(option) = words.next() {
        if options.parse(option, words)? {
            continue;
        }
        if !option.eq_ignore_ascii_case(b"RAISE") {
            return Err(Malformed::unknown_option(option));
        }
        let twice = c"ERR syntax error: RAISE is given twice";
        once(&mut raise, words.raise()?, twice)?;
    }
    options.check_renewal()?;
    let Options {
        limit,
        lease,
        session,
        token,
    } = options;
    let request = match (token, raise) {
        (token, None) => crate::Renew::new(owner, limit, lease, token),
        (_, Some(_)) if limit.is_some() => {
            return Err(Malformed::new(
                c"ERR syntax error: RAISE cannot be used with SHARED or LIMIT",
            ));
        }
        (None, Some(_)) => {
            return Err(Malformed::new(
                c"ERR syntax error: RAISE needs TOKEN, the token to raise from",
            ));
        }
        (Some(token), Some(raise)) => crate::Renew::raise(owner, lease, token, raise).ok_or(
            Malformed::new(c"ERR RAISE takes a token at least as high as that of TOKEN"),
        )?,
    };
    Ok(Renew { request, session })
}
