//! `owner|* [SHARED | LIMIT n] [PX ms | EX s] [BLOCK ms] [KEEP ms] [SESSION id] [HOLDS n] [TOKEN token]`

use super::options::{KEEP, LEASE, LIMIT, Options};
use super::session::{SESSION, named as named_session};
use super::syntax::{Argument, Kind, OWNER, TOKEN};
use super::words::{Malformed, Words, once};
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
    /// The caller; `None` for `*`, which asks the server for a name.
    pub owner: Option<Owner<'a>>,
    /// How many holders the caller allows, if it names a limit.
    pub limit: Option<Limit>,
    /// The requested lease.
    pub lease: Option<Lease>,
    /// How long the caller waits in milliseconds, 0 without end; `None` when it does not wait.
    pub wait_ms: Option<u64>,
    /// How long the connection that keeps the grant may be silent.
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
    let mut options = Options::default();
    let (mut wait_ms, mut holds) = (None, None);
    while let Some(option) = words.next() {
        if options.parse(option, words)? {
            continue;
        }
        if option.eq_ignore_ascii_case(b"BLOCK") {
            let twice = c"ERR syntax error: BLOCK is given twice";
            once(&mut wait_ms, words.wait_ms()?, twice)?;
        } else if option.eq_ignore_ascii_case(b"HOLDS") {
            let twice = c"ERR syntax error: HOLDS is given twice";
            once(&mut holds, words.wanted_holds()?, twice)?;
        } else {
            return Err(Malformed::unknown_option(option));
        }
    }
    let named = owner.bytes() != ANY_OWNER;
    let session = named_session(options.session)?;
    if !named && (holds.is_some() || options.token.is_some() || session.is_some()) {
        return Err(Malformed::new(
            c"ERR HOLDS, SESSION and TOKEN take an owner by name: a call with the owner * cannot be \
              repeated",
        ));
    }
    options.check_renewal()?;
    Ok(Acquire {
        owner: named.then_some(owner),
        limit: options.limit,
        lease: options.lease,
        wait_ms,
        keep: options.keep,
        session,
        holds,
        token: options.token,
    })
}
