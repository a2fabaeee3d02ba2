//! `owner [ALL | HOLDS n] [SESSION id] [TOKEN token]`

use std::ffi::CStr;

use super::options::SESSION_TWICE;
use super::session::{SESSION, named, session_move};
use super::syntax::{Argument, Kind, OWNER, TOKEN};
use super::words::{Malformed, ONE_TOKEN, Words, once};
use crate::ReleaseAmount;
use crate::sessions::SessionId;

const ONE_AMOUNT: &CStr =
    c"ERR syntax error: only one of ALL and HOLDS can be given, and only once";

/// The words of a release.
pub const RELEASE: &[Argument] = &[
    OWNER,
    Argument::new(
        c"amount",
        Kind::OneOf(&[
            Argument::after(c"ALL", c"all", Kind::Flag),
            Argument::after(c"HOLDS", c"holds", Kind::Integer),
        ]),
    )
    .optional(),
    SESSION,
    TOKEN,
];

/// A parsed release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release<'a> {
    /// The holds to release.
    pub request: crate::Release<'a>,
    /// The session of the program that releases the lock.
    pub session: Option<SessionId>,
}

/// Parses a release.
///
/// # Errors
///
/// [`Malformed`] for the first wrong word.
pub fn release<'a>(
    words: &mut Words<impl Iterator<Item = &'a [u8]>>,
) -> Result<Release<'a>, Malformed> {
    let owner = words.owner()?;
    let (mut amount, mut session, mut token) = (None, None, None);
    while let Some(option) = words.next() {
        if option.eq_ignore_ascii_case(b"ALL") {
            once(&mut amount, ReleaseAmount::All, ONE_AMOUNT)?;
        } else if option.eq_ignore_ascii_case(b"HOLDS") {
            let holds = words.remaining_holds()?;
            once(&mut amount, ReleaseAmount::DownTo(holds), ONE_AMOUNT)?;
        } else if option.eq_ignore_ascii_case(b"SESSION") {
            once(&mut session, session_move(words)?, SESSION_TWICE)?;
        } else if option.eq_ignore_ascii_case(b"TOKEN") {
            once(&mut token, words.token()?, ONE_TOKEN)?;
        } else {
            return Err(Malformed::unknown_option(option));
        }
    }
    let session = named(session)?;
    if session.is_some() && token.is_none() {
        return Err(Malformed::new(
            c"ERR syntax error: SESSION needs TOKEN, the token of the grant to release",
        ));
    }
    Ok(Release {
        request: crate::Release {
            owner,
            amount: amount.unwrap_or(ReleaseAmount::One),
            token,
        },
        session,
    })
}
