//! What replicas and the append-only file get: the state that a command led to, never the command.
//!
//! `LOCK._APPLY key owner token holds lease-ms deadline-ms` makes the key hold exactly this lock
//! (a deadline of -1: none), and `LOCK._CLOCK token` lifts the token clock. Both may be applied any
//! number of times. A later version may send more arguments; those that are not known are passed
//! over, so that an older replica can follow a newer primary.
//! A lock that becomes free is a plain `DEL`.

use std::ffi::CStr;

use crate::core::{Deadline, Grant, Holds, Lease, Owner, Token};
use crate::server::{AofWriter, Context, Text};

/// The command that carries a lock.
pub(crate) const APPLY: &CStr = c"lock._apply";
/// The command that carries the token clock.
pub(crate) const CLOCK: &CStr = c"lock._clock";

const FREE: &CStr = c"DEL";
const NO_DEADLINE: i64 = -1;

/// The state of a lock, as it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effect<'a> {
    pub(crate) owner: Owner<'a>,
    pub(crate) grant: Grant,
    pub(crate) deadline: Deadline,
}

/// An argument of an effect is not what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EffectError(pub(crate) &'static CStr);

impl<'a> Effect<'a> {
    /// Reads `owner token holds lease-ms deadline-ms`; the numbers are read by `integer`.
    pub(crate) fn parse(
        owner: &'a [u8],
        numbers: [&[u8]; 4],
        integer: impl Fn(&[u8]) -> Option<i64>,
    ) -> Result<Self, EffectError> {
        let [token, holds, lease, deadline] = numbers.map(integer);
        let unsigned = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
        Ok(Self {
            owner: Owner::new(owner).ok_or(EffectError(c"ERR the owner must be 1 to 256 bytes"))?,
            grant: Grant {
                token: unsigned(token).and_then(Token::new).ok_or(EffectError(
                    c"ERR the token must be an integer from 1 to 9007199254740991",
                ))?,
                holds: unsigned(holds)
                    .and_then(|holds| u32::try_from(holds).ok())
                    .and_then(Holds::new)
                    .ok_or(EffectError(
                        c"ERR the hold count must be an integer from 1 to 2147483647",
                    ))?,
                lease: unsigned(lease)
                    .and_then(Lease::from_millis)
                    .ok_or(EffectError(
                        c"ERR the lease must be an integer from 1 to 315360000000",
                    ))?,
            },
            deadline: match deadline {
                Some(NO_DEADLINE) => Deadline::Never,
                other => Deadline::At(unsigned(other).ok_or(EffectError(
                    c"ERR the deadline must be -1 or milliseconds since 1970",
                ))?),
            },
        })
    }

    pub(super) fn replicate(&self, context: Context<'_>, key: Text<'_>) {
        context.replicate_key_text(APPLY, key, self.owner.bytes(), self.numbers());
    }

    pub(super) fn rewrite(&self, key: Text<'_>, out: &mut AofWriter) {
        out.command(APPLY, key, self.owner.bytes(), self.numbers());
    }

    fn numbers(&self) -> [i64; 4] {
        let deadline = match self.deadline {
            Deadline::At(at) => i64::try_from(at).unwrap_or(i64::MAX),
            Deadline::Never => NO_DEADLINE,
        };
        [
            self.grant.token.number().cast_signed(),
            i64::from(self.grant.holds.number()),
            self.grant.lease.millis().cast_signed(),
            deadline,
        ]
    }
}

pub(super) fn replicate_free(context: Context<'_>, key: Text<'_>) {
    context.replicate_key(FREE, key);
}

pub(super) fn replicate_clock(context: Context<'_>, token: Token) {
    context.replicate_number(CLOCK, token.number().cast_signed());
}
