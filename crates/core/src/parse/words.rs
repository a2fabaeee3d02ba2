//! The words of a command. Each error names the wrong word and its valid values.

use std::borrow::Cow;
use std::ffi::{CStr, CString};

use super::integer;
use crate::{Holds, Lease, Limit, Owner, Token};

/// The longest wait: ten years.
const MAX_WAIT_MS: u64 = Lease::MAX.millis();

pub(super) const ONE_TOKEN: &CStr = c"ERR syntax error: TOKEN is given twice";

/// The error reply for a wrong word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub Cow<'static, CStr>);

impl Malformed {
    pub(super) const fn new(error: &'static CStr) -> Self {
        Self(Cow::Borrowed(error))
    }

    /// The error for an unknown option, which it quotes escaped and truncated.
    pub(super) fn unknown_option(option: &[u8]) -> Self {
        const MAX: usize = 32;
        let shown = option[..option.len().min(MAX)].escape_ascii();
        let text = format!("ERR syntax error: unknown option '{shown}'");
        Self(Cow::Owned(CString::new(text).unwrap_or_default()))
    }
}

/// The words that have not been read yet.
#[derive(Debug)]
pub struct Words<I> {
    rest: I,
    max_lease: Lease,
}

impl<'a, I: Iterator<Item = &'a [u8]>> Words<I> {
    /// The words after the command's name and its key. No lease may be longer than `max_lease`.
    pub const fn new(words: I, max_lease: Lease) -> Self {
        Self {
            rest: words,
            max_lease,
        }
    }

    /// The next word.
    pub(super) fn next(&mut self) -> Option<&'a [u8]> {
        self.rest.next()
    }

    /// The owner.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the owner is missing, empty or too long.
    pub fn owner(&mut self) -> Result<Owner<'a>, Malformed> {
        self.next()
            .and_then(Owner::new)
            .ok_or(Malformed::new(c"ERR the owner must be 1 to 256 bytes"))
    }

    /// `BLOCK milliseconds`, `QUEUE milliseconds`.
    pub(super) fn wait_ms(&mut self, error: &'static CStr) -> Result<u64, Malformed> {
        self.integer(|wait| (wait <= MAX_WAIT_MS).then_some(wait), error)
    }

    /// `HOLDS n` of an acquire, at least 1.
    pub(super) fn wanted_holds(&mut self) -> Result<Holds, Malformed> {
        self.integer(
            |holds| Holds::new(u32::try_from(holds).ok()?),
            c"ERR HOLDS takes the number of holds to reach, an integer from 1 to 2147483647",
        )
    }

    /// `LIMIT n`.
    pub(super) fn limit(&mut self) -> Result<Limit, Malformed> {
        self.integer(
            |limit| Limit::new(u32::try_from(limit).ok()?),
            c"ERR LIMIT takes the maximum number of holders, this one included, an integer from 0 \
              (any number) to 2147483647",
        )
    }

    /// `HOLDS n` of a release, at least 0.
    pub(super) fn remaining_holds(&mut self) -> Result<u32, Malformed> {
        self.integer(
            |holds| {
                u32::try_from(holds)
                    .ok()
                    .filter(|holds| *holds <= Holds::MAX.number())
            },
            c"ERR HOLDS takes the number of holds to keep, an integer from 0 to 2147483647",
        )
    }

    /// `TOKEN token`.
    pub(super) fn token(&mut self) -> Result<Token, Malformed> {
        self.integer(
            Token::new,
            c"ERR TOKEN takes a fencing token, an integer from 1 to 9007199254740991",
        )
    }

    /// `RAISE token`.
    pub(super) fn raise(&mut self) -> Result<Token, Malformed> {
        self.integer(
            Token::new,
            c"ERR RAISE takes a fencing token, an integer from 1 to 9007199254740991",
        )
    }

    /// `COUNT n`.
    pub(super) fn count(&mut self) -> Result<usize, Malformed> {
        self.integer(
            |count| usize::try_from(count).ok().filter(|count| *count > 0),
            c"ERR COUNT takes the maximum number to return, an integer from 1",
        )
    }

    /// A lease in this unit. Fails with `error` if it is not an integer or longer than allowed.
    pub(super) fn lease(&mut self, unit_ms: u64, error: &'static CStr) -> Result<Lease, Malformed> {
        let max = self.max_lease;
        let lease = |number: u64| Lease::from_millis(number.checked_mul(unit_ms)?);
        self.integer(|number| lease(number).filter(|lease| *lease <= max), error)
    }

    /// The next word as an integer. Fails with `error` if it is not an integer or `convert` returns `None`.
    pub(super) fn integer<T>(
        &mut self,
        convert: impl FnOnce(u64) -> Option<T>,
        error: &'static CStr,
    ) -> Result<T, Malformed> {
        self.next()
            .and_then(integer::parse)
            .and_then(|number| convert(u64::try_from(number).ok()?))
            .ok_or(Malformed::new(error))
    }
}

/// Sets an option. Fails with `repeated` if the option, or one that it excludes, was given before.
pub(super) fn once<T>(
    option: &mut Option<T>,
    value: T,
    repeated: &'static CStr,
) -> Result<(), Malformed> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(Malformed::new(repeated)),
    }
}
