//! `owner|* [SHARED | LIMIT n] [PX ms | EX s] [BLOCK ms | QUEUE ms] [SESSION id] [HOLDS n] [TOKEN token]`

use std::ffi::CStr;

use super::options::{LEASE, LIMIT, Options};
use super::session::{SESSION, named as named_session};
use super::syntax::{Argument, Kind, OWNER, TOKEN};
use super::words::{Malformed, Words, once};
use crate::sessions::SessionId;
use crate::{Holds, Lease, Limit, Owner, Token};

const ANY_OWNER: &[u8] = b"*";

const ONE_WAIT: &CStr =
    c"ERR syntax error: only one of BLOCK and QUEUE can be given, and only once";
pub(super) const BLOCK: &CStr =
    c"ERR BLOCK takes the longest wait in milliseconds, an integer from 0 (no limit) to 315360000000";
const QUEUE: &CStr =
    c"ERR QUEUE takes the longest wait in milliseconds, an integer from 0 (no limit) to 315360000000";

/// The words of an acquire.
pub const ACQUIRE: &[Argument] = &[
    Argument::new(
        c"owner",
        Kind::OneOf(&[OWNER, Argument::after(c"*", c"random-owner", Kind::Flag)]),
    ),
    LIMIT,
    LEASE,
    Argument::new(
        c"wait",
        Kind::OneOf(&[
            Argument::after(c"BLOCK", c"wait-milliseconds", Kind::Integer),
            Argument::after(c"QUEUE", c"queue-milliseconds", Kind::Integer).since(c"0.3.0"),
        ]),
    )
    .optional(),
    SESSION,
    Argument::after(c"HOLDS", c"holds", Kind::Integer).optional(),
    TOKEN,
];

/// How a call waits, and how long in milliseconds; 0 for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The call blocks its client.
    Block(u64),
    /// The call is queued, and its session gets the answer as an event.
    Queue(u64),
}

/// A parsed acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquire<'a> {
    /// The caller; `None` for `*`, which asks the server for a name.
    pub owner: Option<Owner<'a>>,
    /// How many holders the caller allows, if it names a limit.
    pub limit: Option<Limit>,
    /// The requested lease.
    pub lease: Option<Lease>,
    /// How the caller waits, if it does.
    pub wait: Option<Wait>,
    /// The session that the grant joins.
    pub session: Option<SessionId>,
    /// How many holds the caller wants to have after the call.
    pub holds: Option<Holds>,
    /// The grant that the call re-enters.
    pub token: Option<Token>,
}

impl Acquire<'_> {
    /// The session and hold count that identify a repeated queued call, together with its lock and owner; `None` if the
    /// call is not queued.
    #[must_use]
    pub const fn repeats(&self) -> Option<(SessionId, Holds)> {
        match (self.wait, self.session, self.holds) {
            (Some(Wait::Queue(_)), Some(session), Some(holds)) => Some((session, holds)),
            _ => None,
        }
    }
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
    let (mut wait, mut holds) = (None, None);
    while let Some(option) = words.next() {
        if options.parse(option, words)? {
            continue;
        }
        if option.eq_ignore_ascii_case(b"BLOCK") {
            once(&mut wait, Wait::Block(words.wait_ms(BLOCK)?), ONE_WAIT)?;
        } else if option.eq_ignore_ascii_case(b"QUEUE") {
            once(&mut wait, Wait::Queue(words.wait_ms(QUEUE)?), ONE_WAIT)?;
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
            c"ERR HOLDS, SESSION and TOKEN need a named owner: a call with the owner * cannot be \
              repeated",
        ));
    }
    let is_queued = matches!(wait, Some(Wait::Queue(_)));
    if is_queued && (session.is_none() || holds.is_none() || options.token.is_some()) {
        return Err(Malformed::new(
            c"ERR QUEUE needs SESSION and HOLDS, and cannot be used with TOKEN",
        ));
    }
    options.check_renewal()?;
    Ok(Acquire {
        owner: named.then_some(owner),
        limit: options.limit,
        lease: options.lease,
        wait,
        session,
        holds,
        token: options.token,
    })
}
