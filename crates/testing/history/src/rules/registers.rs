//! A register is written by the holder of its lock, and no longer by an earlier holder.

use super::Evidence;
use crate::grants::Grant;
use crate::report::{Counts, Kind, Violation};
use crate::{Action, Call, Granted, Moment, Outcome, Register, Write, Written};

impl Evidence<'_, '_> {
    pub(super) fn registers(&self, found: &mut Vec<Violation>, counts: &mut Counts) {
        for write in &self.story.writes {
            let counted = counts.writes.entry(write.register).or_default();
            match write.written {
                Written::Taken => {
                    counted.taken += 1;
                    self.went_back(write, found);
                    if write.register == Register::Script {
                        self.taken_stale(write, found);
                    }
                }
                Written::Refused if self.certainly_current(write) => {
                    let text = format!("{write}, {}", self.told(write.token));
                    found.push(self.violation(Kind::RegisterRefused, text));
                }
                Written::Refused => counted.stale_refused += 1,
                Written::Unknown | Written::Untouched => {}
            }
        }
    }

    /// A higher token had been taken, and the writer could know. The database is for those who have the
    /// lock alone.
    fn went_back(&self, write: &Write, found: &mut Vec<Violation>) {
        let higher = self.story.writes.iter().find(|other| {
            other.register == write.register
                && other.written == Written::Taken
                && other.token > write.token
                && other.ended < write.sent
                && (write.register == Register::Sql
                    || self.grants.exclude_each_other(other.token, write.token))
                && !self.forgotten(write.register, other.sent, write.ended)
        });
        if let Some(higher) = higher {
            let text = format!("{higher}, and later {write}");
            found.push(self.violation(Kind::RegisterWentBack, text));
        }
    }

    /// A script's register is lost together with the lock; another database is not.
    fn forgotten(&self, register: Register, from: Moment, to: Moment) -> bool {
        register == Register::Script && self.story.loss_between(from, to)
    }

    /// The grant had ended before the write was sent.
    fn taken_stale(&self, write: &Write, found: &mut Vec<Violation>) {
        let Some(index) = self.grants.index(write.token) else {
            return;
        };
        let grant = &self.grants.all()[index];
        let ends = self.story.calls.iter().find(|call| {
            call.ended < write.sent
                && !self.forgotten(write.register, call.sent, write.ended)
                && self.certainly_ended_by(grant, call)
        });
        if let Some(ends) = ends {
            let text = format!("{write} after {ends}, {}", self.told(write.token));
            found.push(self.violation(Kind::RegisterTookStale, text));
        }
    }

    /// The write was made while its token's grant certainly stood, and under this very token.
    fn certainly_current(&self, write: &Write) -> bool {
        if self.trusted(write) && !self.outdone(write) {
            return true;
        }
        let Some(index) = self.grants.index(write.token) else {
            return false;
        };
        let held = self
            .holds
            .iter()
            .any(|hold| hold.grant == index && hold.span.covers(write.sent, write.ended));
        let grant = &self.grants.all()[index];
        let current = grant.tokens.last() == Some(&write.token)
            && grant.shown.iter().any(|call| {
                crate::grants::shown(call).any(|token| token == write.token)
                    && call.ended <= write.sent
                    && !self.story.loss_between(call.sent, write.ended)
            });
        held && current && !self.may_be_raised(grant, write) && !self.outdone(write)
    }

    /// Somebody may have lifted the grant above the token, unheard.
    fn may_be_raised(&self, grant: &Grant<'_>, write: &Write) -> bool {
        self.story.calls.iter().any(|call| match call.action {
            Action::Renew(asks) => {
                asks.raise.is_some_and(|raise| raise > write.token)
                    && call.owner == grant.owner
                    && call.sent < write.ended
                    && call.outcome == Outcome::Lost
            }
            _ => false,
        })
    }

    /// A register that outlives a loss may have been shown a higher token, of a grant that was lost.
    fn outdone(&self, write: &Write) -> bool {
        let mut others = self.story.writes.iter();
        self.story.loss_between(0, write.ended)
            && others.any(|other| {
                other.register == write.register
                    && other.token > write.token
                    && other.sent < write.ended
                    && matches!(other.written, Written::Taken | Written::Unknown)
            })
    }

    /// How the token became known.
    fn told(&self, token: u64) -> String {
        let shown = self.grants.index(token).and_then(|index| {
            let shown = self.grants.all()[index].shown.iter();
            shown.min_by_key(|call| call.ended)
        });
        shown.map_or_else(String::new, |call| format!("the token of {call}"))
    }

    /// When this call was answered, the grant was certainly over.
    fn certainly_ended_by(&self, grant: &Grant<'_>, call: &Call) -> bool {
        let known = grant.shown.iter().any(|shown| shown.ended < call.sent);
        match (&call.action, &call.outcome) {
            (Action::Remove, Outcome::Done) => known,
            (Action::Release { .. }, Outcome::Left(0)) => known && call.owner == grant.owner,
            (_, Outcome::Grant(Granted { token, .. })) => grant
                .tokens
                .last()
                .is_some_and(|last| last < token && self.grants.exclude_each_other(*last, *token)),
            _ => false,
        }
    }
}
