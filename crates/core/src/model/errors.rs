//! The errors of a call. Collects every error that applies, and the first one in the contract's order wins.

use super::lock::{Call, Holder, MAX_HOLDS, MICROS, Server, TOKENS_END, Verb};

pub(crate) const LOWER: &str = "ERR raise lower than token";
pub(crate) const SEVERAL: &str = "ERR several holds";
pub(crate) const NOT_RAISABLE: &str = "ERR not of limit 1";
pub(crate) const FULL: &str = "ERR hold count at its limit";
pub(crate) const USED_UP: &str = "ERR tokens used up";

/// The errors in the contract's order. The last four depend on the state of the lock.
const ORDER: [&str; 10] = [
    LOWER,
    "NOTHELD",
    "NOTOWNER",
    "FENCED",
    "NOTALONE",
    "AHEAD",
    SEVERAL,
    NOT_RAISABLE,
    FULL,
    USED_UP,
];

impl Server {
    /// The error that a call gets, if any.
    pub(super) fn error(&self, call: Call) -> Option<&'static str> {
        let holders = self.holders(call.key);
        let mine = holders.iter().find(|holder| holder.owner == call.owner);
        let mut all = match (call.verb, mine) {
            (Verb::Fence, _) => fence(&holders, call.token),
            (_, None) => self.as_no_holder(call, &holders),
            (_, Some(mine)) => as_holder(call, *mine, holders.len() as u64),
        };
        if let Verb::Renew {
            raise: Some(raise), ..
        } = call.verb
        {
            all.extend(self.raise(call.token, raise));
        }
        ORDER.into_iter().find(|error| all.contains(error))
    }

    fn as_no_holder(&self, call: Call, holders: &[Holder]) -> Vec<&'static str> {
        let mut errors = Vec::new();
        let counts_on_a_grant = match call.verb {
            // `TOKEN` only re-enters, and `HOLDS` above 1 expects earlier holds.
            Verb::Acquire { holds, .. } => call.token.is_some() || holds.is_some_and(|n| n > 1),
            _ => true,
        };
        if counts_on_a_grant {
            errors.push(if holders.is_empty() {
                "NOTHELD"
            } else {
                "NOTOWNER"
            });
        }
        if let Verb::Acquire { limit, .. } = call.verb
            && self.has_room(call.key, limit)
            && self.new_token() >= TOKENS_END
        {
            errors.push(USED_UP);
        }
        errors
    }

    /// A raise never lowers a token, and never puts it too far ahead of both the clock and every token seen.
    fn raise(&self, from: Option<u64>, to: u64) -> Vec<&'static str> {
        let mut errors = Vec::new();
        if from.is_some_and(|from| to < from) {
            errors.push(LOWER);
        }
        if to > self.seen
            && to
                > self
                    .now
                    .saturating_add(self.settings.max_lead.saturating_mul(MICROS))
        {
            errors.push("AHEAD");
        }
        errors
    }
}

/// A fence lets every current grant pass.
fn fence(holders: &[Holder], token: Option<u64>) -> Vec<&'static str> {
    let is_current = holders.iter().any(|holder| Some(holder.token) == token);
    if is_current { vec![] } else { vec!["FENCED"] }
}

fn as_holder(call: Call, mine: Holder, holders: u64) -> Vec<&'static str> {
    let mut errors = Vec::new();
    let mut is_fenced = call.token.is_some_and(|token| token != mine.token);
    // A narrower limit than the grant's allows no fewer holders than there are.
    let is_too_narrow = |limit: u64| limit < mine.limit && limit < holders;
    match call.verb {
        Verb::Acquire { limit, holds, .. } => {
            if holds.is_some_and(|wanted| mine.holds + 1 < wanted) {
                errors.push("NOTHELD");
            }
            if is_too_narrow(limit) {
                errors.push("NOTALONE");
            }
            if holds.is_none() && mine.holds == MAX_HOLDS {
                errors.push(FULL);
            }
        }
        Verb::Renew { limit, raise, .. } => {
            if limit.is_some_and(is_too_narrow) {
                errors.push("NOTALONE");
            }
            // Another hold of the grant may rely on exclusivity.
            if limit.is_some_and(|limit| limit > mine.limit) && mine.holds > 1 {
                errors.push(SEVERAL);
            }
            if raise.is_some() && mine.limit != 1 {
                errors.push(NOT_RAISABLE);
            }
            // If the grant already has the raised token, the call is a repetition.
            is_fenced &= raise != Some(mine.token);
        }
        Verb::Release(_) | Verb::Fence => {}
    }
    if is_fenced {
        errors.push("FENCED");
    }
    errors
}
