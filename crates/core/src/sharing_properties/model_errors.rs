//! The model's errors: every one that applies to a call, unordered.

use super::model::{
    Call, FULL, MAX_HOLDS, MAX_LEAD, MICROS, Model, NOT_RAISABLE, SEVERAL, Verb, narrower, within,
};

impl Model {
    pub(super) fn errors(&self, call: Call) -> Vec<&'static str> {
        let mut errors = Vec::new();
        let live = self.live();
        let mine = live.iter().find(|holder| holder.owner == call.owner);
        let expects = match call.verb {
            Verb::Acquire { holds, .. } => call.token.is_some() || holds.is_some_and(|n| n > 1),
            Verb::Release(_) | Verb::Renew { .. } => true,
            Verb::Fence => {
                if !live.iter().any(|holder| Some(holder.token) == call.token) {
                    errors.push("FENCED");
                }
                return errors;
            }
        };
        if expects && live.is_empty() {
            errors.push("NOTHELD");
        }
        if expects && !live.is_empty() && mine.is_none() {
            errors.push("NOTOWNER");
        }
        let Some(mine) = mine else { return errors };
        let mut fenced = call.token.is_some_and(|token| token != mine.token);
        match call.verb {
            Verb::Acquire { limit, holds, .. } => {
                if holds.is_some_and(|n| mine.holds + 1 < n) {
                    errors.push("NOTHELD");
                }
                if narrower(limit, mine.limit) && !within(limit, live.len()) {
                    errors.push("NOTALONE");
                }
                if holds.is_none() && mine.holds == MAX_HOLDS {
                    errors.push(FULL);
                }
            }
            Verb::Renew { limit, raise, .. } => {
                if let Some(limit) = limit {
                    if narrower(limit, mine.limit) && !within(limit, live.len()) {
                        errors.push("NOTALONE");
                    }
                    if narrower(mine.limit, limit) && mine.holds > 1 {
                        errors.push(SEVERAL);
                    }
                }
                if let Some(raise) = raise {
                    fenced &= mine.token != raise;
                    if raise > self.seen && raise > self.now + MAX_LEAD * MICROS {
                        errors.push("AHEAD");
                    }
                    if mine.limit != 1 {
                        errors.push(NOT_RAISABLE);
                    }
                }
            }
            _ => {}
        }
        if fenced {
            errors.push("FENCED");
        }
        errors
    }
}
