//! `SESSION id`, and the words of the subcommands of `LOCK.SESSION`.

use std::ffi::CStr;

use super::acquire::BLOCK;
use super::count::count;
use super::syntax::{Argument, Kind};
use super::words::{Malformed, Words, once};
use crate::sessions::{SessionId, SessionTimeout};

/// The words of `SESSION id`.
pub(super) const SESSION: Argument = Argument::after(c"SESSION", c"session-id", Kind::Integer)
    .optional()
    .since(c"0.3.0");

const ID: Argument = Argument::new(c"session-id", Kind::Integer);
const COUNT: Argument = Argument::after(c"COUNT", c"count", Kind::Integer).optional();

/// The words of `OPEN`.
pub const SESSION_OPEN: &[Argument] = &[
    Argument::after(c"TIMEOUT", c"timeout-milliseconds", Kind::Integer).optional(),
    Argument::after(c"NAME", c"name", Kind::String).optional(),
];
/// The words of `POLL`.
pub const SESSION_POLL: &[Argument] = &[
    ID,
    Argument::after(c"BLOCK", c"wait-milliseconds", Kind::Integer).optional(),
];
/// The words of `GRANTS`.
pub const SESSION_GRANTS: &[Argument] = &[ID, COUNT];
/// The words of `CLOSE` and `KILL`.
pub const SESSION_ID: &[Argument] = &[ID];

/// The longest name of a session, in bytes.
const MAX_NAME: usize = 256;

const NO_ID: &CStr =
    c"ERR SESSION takes the id of a session, an integer from 1 to 9007199254740991; \
                       0 is allowed in LOCK.RENEW only";

/// Where a renewal with `SESSION` moves its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionMove {
    /// Into this session.
    Into(SessionId),
    /// Out of its session.
    Out,
}

/// Parses the id after `SESSION`, where 0 is no session.
pub(super) fn session_move<'a>(
    words: &mut Words<impl Iterator<Item = &'a [u8]>>,
) -> Result<SessionMove, Malformed> {
    words.integer(
        |id| match id {
            0 => Some(SessionMove::Out),
            _ => SessionId::new(id).map(SessionMove::Into),
        },
        NO_ID,
    )
}

/// The session that an acquire or a release names.
pub(super) fn named(moved: Option<SessionMove>) -> Result<Option<SessionId>, Malformed> {
    match moved {
        None => Ok(None),
        Some(SessionMove::Into(id)) => Ok(Some(id)),
        Some(SessionMove::Out) => Err(Malformed::new(NO_ID)),
    }
}

/// A parsed `OPEN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionOpen<'a> {
    /// How long the program may fail to poll.
    pub timeout: SessionTimeout,
    /// The name that operators see.
    pub name: &'a [u8],
}

/// Parses an `OPEN`.
///
/// # Errors
///
/// [`Malformed`] for the first wrong word.
pub fn session_open<'a>(
    words: &mut Words<impl Iterator<Item = &'a [u8]>>,
) -> Result<SessionOpen<'a>, Malformed> {
    let (mut timeout, mut name) = (None, None);
    while let Some(option) = words.next() {
        if option.eq_ignore_ascii_case(b"TIMEOUT") {
            let given = words.integer(
                SessionTimeout::from_millis,
                c"ERR TIMEOUT takes how long the program may fail to poll in milliseconds, an integer \
                  from 1000 to 86400000",
            )?;
            let twice = c"ERR syntax error: TIMEOUT is given twice";
            once(&mut timeout, given, twice)?;
        } else if option.eq_ignore_ascii_case(b"NAME") {
            let given = words.next().filter(|name| name.len() <= MAX_NAME);
            let given = given.ok_or(Malformed::new(
                c"ERR NAME takes a name of at most 256 bytes",
            ))?;
            once(&mut name, given, c"ERR syntax error: NAME is given twice")?;
        } else {
            return Err(Malformed::unknown_option(option));
        }
    }
    Ok(SessionOpen {
        timeout: timeout.unwrap_or(SessionTimeout::DEFAULT),
        name: name.unwrap_or_default(),
    })
}

/// Parses a `POLL`. Returns the session and how long the call waits, where 0 is as long as the server allows.
///
/// # Errors
///
/// [`Malformed`] for the first wrong word.
pub fn session_poll<'a>(
    words: &mut Words<impl Iterator<Item = &'a [u8]>>,
) -> Result<(SessionId, Option<u64>), Malformed> {
    let id = session_id(words)?;
    let mut wait_ms = None;
    while let Some(option) = words.next() {
        if !option.eq_ignore_ascii_case(b"BLOCK") {
            return Err(Malformed::unknown_option(option));
        }
        let given = words.wait_ms(BLOCK)?;
        once(
            &mut wait_ms,
            given,
            c"ERR syntax error: BLOCK is given twice",
        )?;
    }
    Ok((id, wait_ms))
}

/// Parses `GRANTS`. Returns the session and the maximum number of results.
///
/// # Errors
///
/// [`Malformed`] for the first wrong word.
pub fn session_grants<'a>(
    words: &mut Words<impl Iterator<Item = &'a [u8]>>,
) -> Result<(SessionId, Option<usize>), Malformed> {
    Ok((session_id(words)?, count(words)?))
}

/// Parses the id of a session.
///
/// # Errors
///
/// [`Malformed`] if the word is not the id of a session.
pub fn session_id<'a>(
    words: &mut Words<impl Iterator<Item = &'a [u8]>>,
) -> Result<SessionId, Malformed> {
    words.integer(
        SessionId::new,
        c"ERR the session id must be an integer from 1 to 9007199254740991",
    )
}
