//! The promise of the PING: while one is answered on the connection that keeps a grant, the grant stands, and
//! within a third of its lease from the sending of the PING nobody else gets the lock.
//!
//! Of all PINGs that were answered the last one is looked at. What it does not promise, none before it did.

use super::Evidence;
use crate::clock::earliest_end;
use crate::grants::{Grant, shown};
use crate::report::{Kind, Violation};
use crate::text::Seconds;
use crate::{Action, Call, Down, Kept, Moment, Outcome};

impl Evidence<'_, '_> {
    pub(super) fn keeping(&self, found: &mut Vec<Violation>) {
        for kept in &self.story.kept {
            let Some((index, heard)) = self.promised(kept) else {
                continue;
            };
            let broken = self
                .removed(kept, heard)
                .or_else(|| self.taken_over(kept, heard))
                .or_else(|| self.taken(kept, index, heard));
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
                let lease = self.longest_lease(&self.grants.all()[index]);
                heard > kept.since.saturating_add(lease.saturating_mul(1000))
            })
        })
        .count()
    }

    /// The grant that is kept, and when the last PING was sent there that was answered.
    fn promised(&self, kept: &Kept) -> Option<(usize, Moment)> {
        Some((self.grants.index(kept.token?)?, kept.heard?))
    }

    /// The lock had been taken away before the PING was sent.
    fn removed(&self, kept: &Kept, heard: Moment) -> Option<String> {
        let mut calls = self.story.calls.iter();
        let removal = calls.find(|call| {
            (&call.action, &call.outcome) == (&Action::Remove, &Outcome::Done)
                && call.sent > kept.since
                && call.ended < heard
                && !self.story.loss_between(kept.asked, heard)
        });
        removal.map(ToString::to_string)
    }

    /// Another connection had taken the keeping over before the PING was sent.
    fn taken_over(&self, kept: &Kept, heard: Moment) -> Option<String> {
        let mut others = self.story.kept.iter();
        let other = others.find(|other| {
            other.token == kept.token
                && other.asked > kept.since
                && other.since < heard
                && !self.story.loss_between(kept.asked, heard)
        });
        other.map(|other| {
            format!(
                "another connection has kept it since {}",
                Seconds(other.since)
            )
        })
    }

    /// Somebody else, who cannot have held the lock together with this grant, got it before a third of the
    /// lease had passed since the PING, and without force.
    fn taken(&self, kept: &Kept, index: usize, heard: Moment) -> Option<String> {
        let grant = &self.grants.all()[index];
        let third = self.shortest_lease(grant) / 3;
        let (third, heard_at) = (third, i64::try_from(heard).unwrap_or(i64::MAX));
        let until = Moment::try_from(earliest_end(heard_at, third)).unwrap_or(0);
        let mut calls = self.story.calls.iter();
        let taken = calls.find(|call| {
            call.ended < until
                && shown(call).any(|token| self.is_later(index, token))
                && !self.is_excused(kept, index, heard, call.ended)
        });
        taken.map(ToString::to_string)
    }

    /// Whether this token is of another grant, which began later and excludes this one.
    fn is_later(&self, index: usize, token: u64) -> bool {
        let (grants, all) = (&self.grants, self.grants.all());
        let later = grants.index(token).filter(|later| *later > index);
        later.is_some_and(|later| {
            all[later].owner != all[index].owner
                && !(all[later].can_share() && all[index].can_share())
        })
    }

    /// Whether the grant can have ended in a way that the promise leaves out: by force after the PING was
    /// sent, or in a loss, or by the owner's own release. (Of a shorter renewal, its lease counts.)
    fn is_excused(&self, kept: &Kept, index: usize, heard: Moment, taken: Moment) -> bool {
        let story = self.story;
        let between = |call: &Call| call.sent <= taken && call.ended >= heard;
        let ended = story.calls.iter().any(|call| match &call.action {
            Action::Remove => {
                matches!(call.outcome, Outcome::Done | Outcome::Lost) && between(call)
            }
            Action::Release { down, token } => {
                matches!(call.outcome, Outcome::Left(0) | Outcome::Lost)
                    && call.owner == kept.owner
                    && call.sent <= taken
                    && !matches!(down, Down::To(1..))
                    && self.grants.can_meet(*token, index)
            }
            _ => false,
        });
        let mut evictions = story.evictions.iter();
        ended
            || evictions.any(|eviction| eviction.overlaps(heard, taken))
            || story.clock.set_between(heard, taken)
            || story.loss_between(kept.asked, taken)
    }

    /// The shortest lease that it can have had.
    fn shortest_lease(&self, grant: &Grant<'_>) -> u64 {
        self.leases(grant).min().unwrap_or(0)
    }

    /// The longest lease that it can have had.
    fn longest_lease(&self, grant: &Grant<'_>) -> u64 {
        self.leases(grant).max().unwrap_or(0)
    }

    /// The leases that calls of its owner were told of, or asked for.
    fn leases(&self, grant: &Grant<'_>) -> impl Iterator<Item = u64> {
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
