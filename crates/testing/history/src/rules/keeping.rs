//! The promise of the PING: while one is answered on the connection that keeps a grant, the grant stands, and
//! within a third of its lease from the sending of the PING nobody else gets the lock.
//!
//! Of all PINGs that were answered the last one is looked at. What it does not promise, none before it did.

use super::Evidence;
use crate::clock::earliest_end;
use crate::grants::shown;
use crate::report::{Kind, Violation};
use crate::text::Seconds;
use crate::{Action, Call, Down, Kept, Moment, Outcome};

/// A grant, and what was promised of it when a PING was answered.
struct Promise<'k> {
    kept: &'k Kept,
    index: usize,
    /// Just before the PING was sent.
    heard: Moment,
    /// From then on the owner may have released it.
    released: Moment,
}

impl Evidence<'_, '_> {
    pub(super) fn keeping(&self, found: &mut Vec<Violation>) {
        for kept in &self.story.kept {
            let Some((index, heard)) = self.promised(kept) else {
                continue;
            };
            let promise = Promise {
                kept,
                index,
                heard,
                released: self.released(index),
            };
            let broken = self
                .removed(&promise)
                .or_else(|| self.taken_over(&promise))
                .or_else(|| self.taken(&promise));
            if let Some(broken) = broken {
                let text = format!("{}, and {broken}", name(kept, heard));
                found.push(self.violation(Kind::PromiseBroken, text));
            }
        }
    }

    /// How many grants were kept beyond the lease that the call gave them.
    pub(super) fn kept_on(&self) -> usize {
        let kept = self.story.kept.iter();
        kept.filter(|kept| {
            self.promised(kept).is_some_and(|(index, heard)| {
                let lease = self.leases(index).max().unwrap_or(0);
                heard > kept.since.saturating_add(lease.saturating_mul(1000))
            })
        })
        .count()
    }

    /// The grant that is kept, and when the last PING was sent there that was answered.
    fn promised(&self, kept: &Kept) -> Option<(usize, Moment)> {
        Some((self.grants.index(kept.token?)?, kept.heard?))
    }

    /// From when on the owner may have released it, with which the keeping ends and closes nothing.
    fn released(&self, index: usize) -> Moment {
        let calls = self.story.calls.iter();
        let releases = calls.filter(|call| self.may_release(call, index));
        releases.map(|call| call.sent).min().unwrap_or(Moment::MAX)
    }

    /// Whether with this call its owner may have let go of a grant.
    pub(super) fn may_release(&self, call: &Call, index: usize) -> bool {
        match call.action {
            Action::Release { down, token } => {
                matches!(call.outcome, Outcome::Left(0) | Outcome::Lost)
                    && call.owner == self.grants.all()[index].owner
                    && !matches!(down, Down::To(1..))
                    && self.grants.can_meet(token, index)
            }
            _ => false,
        }
    }

    /// The lock had been taken away before the PING was sent.
    fn removed(&self, promise: &Promise<'_>) -> Option<String> {
        let Promise { kept, heard, .. } = *promise;
        let removal = self.story.calls.iter().find(|call| {
            (&call.action, &call.outcome) == (&Action::Remove, &Outcome::Done)
                && call.sent > kept.since
                && call.ended < heard.min(promise.released)
                && !self.story.loss_between(kept.asked, heard)
        });
        removal.map(ToString::to_string)
    }

    /// Another connection had taken the keeping over before the PING was sent.
    fn taken_over(&self, promise: &Promise<'_>) -> Option<String> {
        let Promise { kept, heard, .. } = *promise;
        let other = self.story.kept.iter().find(|other| {
            other.token == kept.token
                && other.asked > kept.since
                && other.since < heard.min(promise.released)
                && !self.story.loss_between(kept.asked, heard)
        });
        let since = Seconds(other?.since);
        Some(format!("another connection has kept it since {since}"))
    }

    /// Somebody else, who cannot have held the lock together with this grant, got it before a third of the
    /// lease had passed since the PING, and without force.
    fn taken(&self, promise: &Promise<'_>) -> Option<String> {
        let third = self.leases(promise.index).min().unwrap_or(0) / 3;
        let heard = i64::try_from(promise.heard).unwrap_or(i64::MAX);
        let until = Moment::try_from(earliest_end(heard, third)).unwrap_or(0);
        let taken = self.story.calls.iter().find(|call| {
            call.ended < until.min(promise.released)
                && shown(call).any(|token| self.is_later(promise.index, token))
                && !self.ends_by_force(promise.kept.asked, promise.heard, call.ended)
        });
        taken.map(ToString::to_string)
    }

    /// Whether this token is of another grant, which began later and excludes this one.
    pub(super) fn is_later(&self, index: usize, token: u64) -> bool {
        let (grants, all) = (&self.grants, self.grants.all());
        let later = grants.index(token).filter(|later| *later > index);
        later.is_some_and(|later| {
            all[later].owner != all[index].owner
                && !(all[later].can_share() && all[index].can_share())
        })
    }

    /// Whether a grant can have ended by force after a PING or POLL was sent, or in a loss after it was asked for.
    /// (Of a shorter renewal, its lease counts.)
    pub(super) fn ends_by_force(&self, asked: Moment, heard: Moment, taken: Moment) -> bool {
        let story = self.story;
        let removed = story.calls.iter().any(|call| {
            call.action == Action::Remove
                && matches!(call.outcome, Outcome::Done | Outcome::Lost)
                && call.sent <= taken
                && call.ended >= heard
        });
        let mut evictions = story.evictions.iter();
        removed
            || evictions.any(|eviction| eviction.overlaps(heard, taken))
            || story.clock.set_between(heard, taken)
            || story.loss_between(asked, taken)
    }

    /// The leases that calls of its owner were told of, or asked for.
    fn leases(&self, index: usize) -> impl Iterator<Item = u64> {
        let grant = &self.grants.all()[index];
        let calls = self.story.calls.iter();
        let own = calls.filter(|call| call.owner == grant.owner);
        own.filter_map(|call| match (&call.action, &call.outcome) {
            (_, Outcome::Grant { lease, .. }) => Some(*lease),
            (Action::Renew { lease, .. }, Outcome::Lost) => *lease,
            _ => None,
        })
    }
}

fn name(kept: &Kept, heard: Moment) -> String {
    format!(
        "{} kept its grant {} since {}, and had an answer to a PING of {}",
        kept.owner,
        kept.token.unwrap_or_default(),
        Seconds(kept.since),
        Seconds(heard)
    )
}
