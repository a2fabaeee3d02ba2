//! The options that an acquire and a renewal share:
//! `[SHARED | LIMIT n] [PX milliseconds | EX seconds] [SESSION id] [TOKEN token]`

use std::ffi::CStr;

use super::session::{SessionMove, session_move};
use super::syntax::{Argument, Kind};
use super::words::{Malformed, ONE_TOKEN, Words, once};
use crate::sessions::can_renew;
use crate::{Lease, Limit, Token};

/// The words of a limit.
pub(super) const LIMIT: Argument = Argument::new(
    c"sharing",
    Kind::OneOf(&[
        Argument::after(c"SHARED", c"shared", Kind::Flag),
        Argument::after(c"LIMIT", c"limit", Kind::Integer),
    ]),
)
.optional()
.since(c"0.3.0");

/// The words of a lease.
pub(super) const LEASE: Argument = Argument::new(
    c"lease",
    Kind::OneOf(&[
        Argument::after(c"PX", c"milliseconds", Kind::Integer),
        Argument::after(c"EX", c"seconds", Kind::Integer),
    ]),
)
.optional();

const PX: &CStr = c"ERR PX takes the lease in milliseconds, an integer from 1 to lock.max-lease-ms";
const EX: &CStr =
    c"ERR EX takes the lease in seconds, an integer from 1 to lock.max-lease-ms / 1000";

pub(super) const SESSION_TWICE: &CStr = c"ERR syntax error: SESSION is given twice";

/// The options found so far.
#[derive(Default)]
pub(super) struct Options {
    pub(super) limit: Option<Limit>,
    pub(super) lease: Option<Lease>,
    pub(super) session: Option<SessionMove>,
    pub(super) token: Option<Token>,
}

impl Options {
    /// Parses one of these options. Returns false if `option` is another option.
    pub(super) fn parse<'a>(
        &mut self,
        option: &[u8],
        words: &mut Words<impl Iterator<Item = &'a [u8]>>,
    ) -> Result<bool, Malformed> {
        let is = |name: &[u8]| option.eq_ignore_ascii_case(name);
        if is(b"PX") {
            self.set_lease(words.lease(1, PX)?)?;
        } else if is(b"EX") {
            self.set_lease(words.lease(1000, EX)?)?;
        } else if is(b"SHARED") {
            self.set_limit(Limit::NONE)?;
        } else if is(b"LIMIT") {
            self.set_limit(words.limit()?)?;
        } else if is(b"SESSION") {
            once(&mut self.session, session_move(words)?, SESSION_TWICE)?;
        } else if is(b"TOKEN") {
            once(&mut self.token, words.token()?, ONE_TOKEN)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn set_lease(&mut self, lease: Lease) -> Result<(), Malformed> {
        let twice = c"ERR syntax error: only one of PX and EX can be given, and only once";
        once(&mut self.lease, lease, twice)
    }

    fn set_limit(&mut self, limit: Limit) -> Result<(), Malformed> {
        let twice = c"ERR syntax error: only one of SHARED and LIMIT can be given, and only once";
        once(&mut self.limit, limit, twice)
    }

    /// Checks that a lease given together with `SESSION` is long enough for the server to renew it.
    pub(super) fn check_renewal(&self) -> Result<(), Malformed> {
        let joins = matches!(self.session, Some(SessionMove::Into(_)));
        match self.lease {
            Some(lease) if joins && !can_renew(lease) => Err(Malformed::new(
                c"ERR a grant in a session needs a lease of at least 1000 milliseconds",
            )),
            _ => Ok(()),
        }
    }
}
