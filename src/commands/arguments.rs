//! Arguments of a command, read from left to right; each error says which one and what it takes.

use std::ffi::CStr;

use super::integer;
use crate::core::{Holds, Lease, Owner, Token};
use crate::locks::{Fault, longest_lease};
use crate::server::Text;

/// Ten years, the longest wait.
const LONGEST_WAIT_MS: u64 = Lease::LONGEST.millis();

/// The arguments that are still to be read.
pub(super) struct Arguments<'call> {
    rest: std::slice::Iter<'call, Text<'call>>,
}

impl<'call> Arguments<'call> {
    /// The arguments behind the command's name and its key, and the key.
    pub(super) fn after_key(arguments: &'call [Text<'call>]) -> Result<(Text<'call>, Self), Fault> {
        // The server has checked the arity.
        let [_name, key, rest @ ..] = arguments else {
            return Err(Fault::argument(c"ERR wrong number of arguments"));
        };
        Ok((*key, Self { rest: rest.iter() }))
    }

    /// The next argument, if there is one.
    pub(super) fn next(&mut self) -> Option<&'call [u8]> {
        self.rest.next().map(|text| text.bytes())
    }

    pub(super) fn owner(&mut self) -> Result<Owner<'call>, Fault> {
        self.next()
            .and_then(Owner::new)
            .ok_or(Fault::argument(c"ERR the owner must be 1 to 256 bytes"))
    }

    /// `PX milliseconds`.
    pub(super) fn lease_ms(&mut self) -> Result<Lease, Fault> {
        lease(self.integer(), 1).ok_or(Fault::argument(
            c"ERR PX takes the lease in milliseconds, an integer from 1 to lock.max-lease-ms",
        ))
    }

    /// `EX seconds`.
    pub(super) fn lease_seconds(&mut self) -> Result<Lease, Fault> {
        lease(self.integer(), 1000).ok_or(Fault::argument(
            c"ERR EX takes the lease in seconds, an integer from 1 to lock.max-lease-ms / 1000",
        ))
    }

    /// `BLOCK milliseconds`.
    pub(super) fn wait_ms(&mut self) -> Result<u64, Fault> {
        self.unsigned()
            .filter(|wait| *wait <= LONGEST_WAIT_MS)
            .ok_or(Fault::argument(
                c"ERR BLOCK takes the longest wait in milliseconds, an integer from 0 (for ever) \
                  to 315360000000",
            ))
    }

    /// `HOLDS n` with at least one.
    pub(super) fn wanted_holds(&mut self) -> Result<Holds, Fault> {
        self.unsigned()
            .and_then(|holds| u32::try_from(holds).ok())
            .and_then(Holds::new)
            .ok_or(Fault::argument(
                c"ERR HOLDS takes the hold count to reach, an integer from 1 to 2147483647",
            ))
    }

    /// `HOLDS n` with none or more.
    pub(super) fn holds_to_keep(&mut self) -> Result<u32, Fault> {
        self.unsigned()
            .and_then(|holds| u32::try_from(holds).ok())
            .filter(|holds| *holds <= Holds::MOST.number())
            .ok_or(Fault::argument(
                c"ERR HOLDS takes the hold count to go down to, an integer from 0 to 2147483647",
            ))
    }

    /// `TOKEN token`.
    pub(super) fn token(&mut self) -> Result<Token, Fault> {
        self.fencing_token(
            c"ERR TOKEN takes a fencing token, an integer from 1 to 9007199254740991",
        )
    }

    /// `RAISE token`.
    pub(super) fn raise(&mut self) -> Result<Token, Fault> {
        self.fencing_token(
            c"ERR RAISE takes a fencing token, an integer from 1 to 9007199254740991",
        )
    }

    /// `COUNT n`.
    pub(super) fn count(&mut self) -> Result<usize, Fault> {
        self.unsigned()
            .filter(|count| *count > 0)
            .and_then(|count| usize::try_from(count).ok())
            .ok_or(Fault::argument(
                c"ERR COUNT takes how many calls to return, an integer from 1",
            ))
    }

    /// A fencing token; anything else is answered with `error`.
    pub(super) fn fencing_token(&mut self, error: &'static CStr) -> Result<Token, Fault> {
        self.unsigned()
            .and_then(Token::new)
            .ok_or(Fault::argument(error))
    }

    fn unsigned(&mut self) -> Option<u64> {
        self.integer().and_then(|number| u64::try_from(number).ok())
    }

    fn integer(&mut self) -> Option<i64> {
        self.next().and_then(integer::parse)
    }
}

/// Keeps the value of an option; an error when the option was given already, or one that it
/// excludes.
pub(super) fn once<T>(
    place: &mut Option<T>,
    value: T,
    repeated: &'static CStr,
) -> Result<(), Fault> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Fault::argument(repeated)),
    }
}

fn lease(units: Option<i64>, unit_ms: u64) -> Option<Lease> {
    let millis = u64::try_from(units?).ok()?.checked_mul(unit_ms)?;
    Lease::from_millis(millis).filter(|lease| *lease <= longest_lease())
}
