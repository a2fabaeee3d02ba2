//! The numbers of the model as values of the core.

use super::history::OWNERS;
use crate::model::errors::{FULL, NOT_RAISABLE, SEVERAL, USED_UP};
use crate::model::lock::{self as model, NEVER, NONE};
use crate::{Deadline, Grant, Holder, Holds, Lease, Limit, Owner, Refusal, Token};

pub(crate) fn error(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::NotHeld | Refusal::HoldsLost => "NOTHELD",
        Refusal::NotOwner => "NOTOWNER",
        Refusal::Fenced => "FENCED",
        Refusal::NotAlone => "NOTALONE",
        Refusal::Ahead => "AHEAD",
        Refusal::SeveralHolds => SEVERAL,
        Refusal::NotRaisable => NOT_RAISABLE,
        Refusal::TooManyHolds => FULL,
        Refusal::TokensUsedUp => USED_UP,
        Refusal::SessionFull | Refusal::SessionLeaseTooShort => unreachable!("of sessions"),
    }
}

/// Names that are easily confused, of several lengths.
pub(crate) fn name(owner: usize) -> Owner<'static> {
    static BYTES: [[u8; OWNERS]; 3] = [[b'o'; OWNERS], [b'O'; OWNERS], [0; OWNERS]];
    Owner::new(&BYTES[owner % 3][..=owner / 3]).expect("a name")
}

pub(crate) fn number_of(name: Owner<'_>) -> usize {
    let kinds = [b'o', b'O', 0];
    let kind = kinds.iter().position(|kind| *kind == name.bytes()[0]);
    3 * (name.bytes().len() - 1) + kind.expect("a name of this list")
}

pub(super) fn to_model(holder: &Holder<'_>) -> model::Holder {
    model::Holder {
        owner: number_of(holder.owner),
        grant: 0,
        token: holder.grant.token.number(),
        holds: holder.grant.holds.number().into(),
        lease: holder.grant.lease.millis(),
        limit: match holder.limit {
            Limit::NONE => NONE,
            limit => limit.number().into(),
        },
        end: to_end(holder.end),
    }
}

pub(super) fn from_model(holder: &model::Holder) -> Holder<'static> {
    Holder {
        owner: name(holder.owner),
        grant: Grant {
            token: token(holder.token),
            holds: count(holder.holds),
            lease: lease(holder.lease),
        },
        limit: to_limit(holder.limit),
        end: match holder.end {
            NEVER => Deadline::Never,
            end => Deadline::At(end),
        },
    }
}

pub(super) const fn to_end(end: Deadline) -> u64 {
    match end {
        Deadline::At(end) => end,
        Deadline::Never => NEVER,
    }
}

pub(super) fn token(number: u64) -> Token {
    Token::new(number).expect("a token")
}

pub(crate) fn count(number: u64) -> Holds {
    Holds::new(u32::try_from(number).expect("holds")).expect("holds")
}

pub(crate) fn lease(millis: u64) -> Lease {
    Lease::from_millis(millis).expect("a lease")
}

pub(crate) fn to_limit(number: u64) -> Limit {
    match number {
        NONE => Limit::NONE,
        number => Limit::new(u32::try_from(number).expect("a limit")).expect("a limit"),
    }
}
