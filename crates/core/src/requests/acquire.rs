//! `owner|* [SHARED | LIMIT n] [PX ms | EX s] [BLOCK ms] [KEEP ms] [SESSION id] [HOLDS n] [TOKEN token]`

use super::keep::{self, KEEP, keep};
use super::lease::{LEASE, lease};
use super::limit::{LIMIT, limit};
use super::session::{self, SESSION, session};
use super::syntax::{Argument, Kind, OWNER, TOKEN};
use super::words::{Malformed, ONE_TOKEN, Words, once};
use crate::keeping::Keep;
use crate::sessions::SessionId;
use crate::{Holds, Lease, Limit, Owner, Token};

const ANY_OWNER: &[u8] = b"*";

/// The words of an acquire.
pub const ACQUIRE: &[Argument] = &[
    Argument::new(
        c"owner",
        Kind::OneOf(&[OWNER, Argument::after(c"*", c"random-owner", Kind::Flag)]),
    ),
    LIMIT,
    LEASE,
    Argument::after(c"BLOCK", c"wait-milliseconds", Kind::Integer).optional(),
    KEEP,
    SESSION,
    Argument::after(c"HOLDS", c"holds", Kind::Integer).optional(),
    TOKEN,
];

/// A parsed acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquire<'a> {
    /// Who asks; `None` for `*`, which asks the server for a name.
    pub owner: Option<Owner<'a>>,
    /// How many holders the caller bears, if it says so.
    pub limit: Option<Limit>,
    /// The lease asked for.
    pub lease: Option<Lease>,
    /// How long the caller waits, 0 for ever; `None` when it does not wait.
    pub wait_ms: Option<u64>,
    /// How long the connection may be silent that keeps the grant.
    pub keep: Option<Keep>,
    /// The session that the grant is to belong to.
    pub session: Option<SessionId>,
    /// How many holds the caller wants to have afterwards.
    pub holds: Option<Holds>,
    /// The grant that the call re-enters.
    pub token: Option<Token>,
}

/// Parses an acquire.
///
/// # Errors
///
/// [`Malformed`] for the first wrong word.
pub fn acquire<'a>(
    words: &mut Words<impl Iterator<Item = &'a [u8]>>,
) -> Result<Acquire<'a>, Malformed> {
    let owner = words.owner()?;
    let (mut asked, mut shares, mut kept, mut named) = (None, None, None, None);
    let (mut wait_ms, mut holds, mut token) = (None, None, None);
    while let Some(option) = words.next() {
        if lease(option, words, &mut asked)?
            || limit(option, words, &mut shares)?
            || keep(option, words, &mut kept)?
            || session(option, words, &mut named)?
        {
            continue;
        }
        if option.eq_ignore_ascii_case(b"BLOCK") {
            once(
                &mut wait_ms,
                words.wait_ms()?,
                c"ERR syntax error: BLOCK is given twice",
            )?;
        } else if option.eq_ignore_ascii_case(b"HOLDS") {
            once(
                &mut holds,
                words.wanted_holds()?,
                c"ERR syntax error: HOLDS is given twice",
            )?;
        } else if option.eq_ignore_ascii_case(b"TOKEN") {
            once(&mut token, words.token()?, ONE_TOKEN)?;
        } else {
            return Err(Malformed::unknown_option(option));
        }
    }
    let is_random = owner.bytes() == ANY_OWNER;
    if is_random && (holds.is_some() || token.is_some() || named.is_some()) {
        return Err(Malformed::new(
            c"ERR HOLDS, SESSION and TOKEN take an owner by name: a call with the owner * cannot be \
              repeated",
        ));
    }
    keep::check(kept, asked)?;
    session::check(named, kept, asked)?;
    Ok(Acquire {
        owner: (!is_random).then_some(owner),
        limit: shares,
        lease: asked,
        wait_ms,
        keep: kept,
        session: named,
        holds,
        token,
    })
}
