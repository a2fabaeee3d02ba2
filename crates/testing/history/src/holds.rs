//! When a grant certainly stood.
//!
//! Everything is judged to its disadvantage: it began when its first reply was read, and it ended
//! when the first call was sent that can have ended it, or when its lease can have ended at the
//! earliest. But whatever shows it later on shows that it stood all the while.

use crate::clock::earliest_end;
use crate::grants::{Grant, Grants};
use crate::story::Story;
use crate::{Action, Call, Down, Moment, Outcome, Span};

/// From one moment to another, in which a grant certainly stood.
pub(crate) struct Hold {
    /// Which one of [`Grants::all`].
    pub(crate) grant: usize,
    pub(crate) span: Span,
}

/// The certain holds of all grants, at most one for each grant and quiet time.
pub(crate) fn certain(story: &Story<'_>, grants: &Grants<'_>, quiet_times: &[Span]) -> Vec<Hold> {
    let mut holds = Vec::new();
    for quiet in quiet_times {
        // A grant begins after whatever shows one with lower tokens that it cannot share the lock with.
        let (mut after_all, mut after_sole) = (quiet.from, quiet.from);
        for (index, grant) in grants.all().iter().enumerate() {
            let shown: Vec<_> = grant
                .shown
                .iter()
                .copied()
                .filter(|call| quiet.covers(call.sent, call.ended))
                .collect();
            let witnesses = Witnesses {
                story,
                grants,
                index,
                shown: &shown,
            };
            let not_before = if grant.can_share() {
                after_sole
            } else {
                after_all
            };
            if let Some(span) = witnesses.span(not_before) {
                let to = span.to.min(quiet.to);
                if span.from < to {
                    let span = Span { to, ..span };
                    holds.push(Hold { grant: index, span });
                }
            }
            let last = shown.iter().map(|call| call.sent).max().unwrap_or(0);
            after_all = after_all.max(last);
            if !grant.can_share() {
                after_sole = after_sole.max(last);
            }
        }
    }
    holds.sort_by_key(|hold| hold.span.from);
    holds
}

/// A sighting of a grant in a quiet time.
struct Witnesses<'s, 'a> {
    story: &'s Story<'a>,
    grants: &'s Grants<'a>,
    index: usize,
    shown: &'s [&'a Call],
}

/// A call that set the end of the lease.
struct Setting {
    sent: Moment,
    ended: Moment,
    lease: u64,
}

impl<'a> Witnesses<'_, 'a> {
    fn span(&self, not_before: Moment) -> Option<Span> {
        let from = self.shown.iter().map(|call| call.ended).min()?;
        let sent = self.shown.iter().map(|call| call.sent);
        let first = sent.clone().min()?;
        // A sighting after a loss may show a grant that is back, because its end was lost.
        let last = sent.filter(|sent| !self.story.loss_between(from, *sent));
        let start = if not_before <= from {
            first.max(not_before)
        } else {
            first
        };
        let taken = self.endings(start).map(|call| call.sent).min();
        let evictions = self.story.evictions.iter();
        let evicted = evictions.filter(|span| span.to >= start);
        let end = taken
            .into_iter()
            .chain(evicted.map(|span| span.from))
            .fold(self.lease_end(start), Moment::min);
        Some(Span::new(from, last.fold(end, Moment::max)))
    }

    fn grant(&self) -> &Grant<'a> {
        &self.grants.all()[self.index]
    }

    /// The calls that can have ended the grant.
    fn endings(&self, start: Moment) -> impl Iterator<Item = &'a Call> {
        self.story.calls.iter().copied().filter(move |call| {
            call.ended >= start
                && match (&call.action, &call.outcome) {
                    (Action::Remove, Outcome::Done | Outcome::Lost) => true,
                    (Action::Release { down, token }, Outcome::Left(0) | Outcome::Lost) => {
                        call.owner == self.grant().owner
                            && !matches!(down, Down::To(1..))
                            && self.grants.can_meet(*token, self.index)
                    }
                    _ => false,
                }
        })
    }

    /// The first moment at which the lease can be over.
    fn lease_end(&self, start: Moment) -> Moment {
        let renewals = self.renewals(start);
        let settings = self.settings(start);
        let ends = settings.iter().map(|setting| {
            // A renewal that may have come later may have brought the end nearer.
            let later = renewals.iter().filter(|other| other.ended > setting.sent);
            let end = later
                .map(|renewal| self.end(renewal))
                .fold(self.end(setting), Ord::min);
            self.story.clock.first(setting.sent, end)
        });
        ends.max().unwrap_or(start)
    }

    fn end(&self, setting: &Setting) -> i64 {
        let start = self.story.clock.earliest(setting.sent, setting.ended);
        earliest_end(start, setting.lease)
    }

    /// The answered calls that set the end of the lease, or moved it on.
    fn settings(&self, start: Moment) -> Vec<Setting> {
        let settings = self.shown.iter().filter_map(|call| {
            Some(Setting {
                sent: call.sent.max(start),
                ended: call.ended.max(start),
                lease: call.granted()?.lease,
            })
        });
        settings.collect()
    }

    /// The renewals that may have met the grant, answered or not.
    fn renewals(&self, start: Moment) -> Vec<Setting> {
        let owner = self.grant().owner;
        let mut shortest = u64::MAX;
        let mut renewals = Vec::new();
        for call in &self.story.calls {
            if call.owner != owner || call.ended < start {
                continue;
            }
            if let Some(told) = call.granted() {
                shortest = shortest.min(told.lease);
            }
            if let Action::Renew(asks) = call.action
                && self.grants.can_meet(asks.token, self.index)
            {
                let lease = match &call.outcome {
                    Outcome::Grant(told) => Some(told.lease),
                    Outcome::Lost => asks.lease,
                    _ => continue,
                };
                shortest = shortest.min(lease.unwrap_or(u64::MAX));
                renewals.push((call.sent.max(start), call.ended, lease));
            }
        }
        // Where the clock was set meanwhile, a renewal by the server may bring the end nearer.
        let in_session = self.story.renewed.iter().filter(|renewed| {
            let Span { from, to } = renewed.span;
            renewed.owner == owner && to >= start && self.story.clock.set_between(from, to)
        });
        renewals.extend(
            in_session.map(|renewed| (renewed.span.from.max(start), renewed.span.to, None)),
        );
        let renewals = renewals.into_iter().map(|(sent, ended, lease)| Setting {
            sent,
            ended,
            lease: lease.unwrap_or(shortest),
        });
        renewals.collect()
    }
}
