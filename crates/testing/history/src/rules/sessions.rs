//! The promise of a POLL's reply: nobody else gets a lock within `sure-ms` from the sending of the POLL, if the client
//! knew its grant to be in the session then, or an event of the reply granted it. A reply that names the loss of the
//! grant promises nothing of it.

use super::Evidence;
use crate::clock::earliest_end;
use crate::grants::shown;
use crate::report::{Kind, Violation};
use crate::story::granted;
use crate::text::Seconds;
use crate::{Action, Call, Down, InSession, Moment, Outcome, Poll, Renew};

/// A call, the session that it names, and which grant it was answered.
type Joins<'c> = (&'c Call, InSession, usize);

impl Evidence<'_, '_> {
    pub(super) fn sessions(&self, found: &mut Vec<Violation>) {
        for (joins, session, index) in self.joins() {
            let Some(taken) = self.taken_by(index, joins.sent) else {
                continue;
            };
            let left = self.left(joins, session, index);
            let is_broken = |poll: &&Poll| {
                taken.ended < sure_until(poll).min(left)
                    && !self.is_told(poll, index)
                    && !self.may_be_shortened(poll.sent, taken.ended, index)
                    && !self.ends_by_force(joins.sent, poll.sent, taken.ended)
                    && !self.story.loss_between(joins.sent, poll.ended)
            };
            if let Some(poll) = self.promises((joins, session, index)).find(is_broken) {
                let (sent, sure) = (Seconds(poll.sent), poll.sure.unwrap_or(0));
                let text = format!("{joins}, a POLL of {sent} was answered {sure} ms, and {taken}");
                found.push(self.violation(Kind::PromiseBroken, text));
            }
        }
    }

    /// The calls that put a grant into a session, as their clients know, with the grant.
    pub(super) fn joins(&self) -> impl Iterator<Item = Joins<'_>> {
        self.story.calls.iter().filter_map(|call| {
            let session = call.session.filter(|session| session.id > 0)?;
            let index = self.grants.index(granted(call)?)?;
            Some((*call, session, index))
        })
    }

    /// The replies that promise something of the grant, while it is in the session as far as its owner knows.
    pub(super) fn promises(
        &self,
        (call, session, index): Joins<'_>,
    ) -> impl Iterator<Item = &Poll> {
        let (ended, InSession { id, queued }) = (call.ended, session);
        let left = self.left(call, session, index);
        self.story.polls.iter().filter(move |poll| {
            poll.session == id
                && poll.sure.is_some_and(|sure| sure > 0)
                && poll.sent < left
                && (ended < poll.sent || queued && ended == poll.ended)
        })
    }

    /// The first call since then that shows that somebody else has got the lock who cannot have shared it.
    fn taken_by(&self, index: usize, since: Moment) -> Option<&Call> {
        let calls = self.story.calls.iter().copied();
        let taken = calls.filter(|call| {
            call.ended >= since && shown(call).any(|token| self.is_later(index, token))
        });
        taken.min_by_key(|call| call.ended)
    }

    /// From when on the grant may be in the session no more by a call of its owner's, since this call put it there.
    fn left(&self, joins: &Call, session: InSession, index: usize) -> Moment {
        let owner = self.grants.all()[index].owner;
        let leaves = self.story.calls.iter().filter(|call| {
            let moves = call.owner == owner
                && call.session.is_some_and(|other| other.id != session.id)
                && (call.granted().is_some() || call.is_unanswered());
            call.ended >= joins.sent && (moves || self.may_release(call, index))
        });
        leaves.map(|call| call.sent).min().unwrap_or(Moment::MAX)
    }

    /// Whether with this call its owner may have let go of a grant.
    fn may_release(&self, call: &Call, index: usize) -> bool {
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

    /// Whether this token is of another grant, which began later and excludes this one.
    fn is_later(&self, index: usize, token: u64) -> bool {
        let (grants, all) = (&self.grants, self.grants.all());
        let later = grants.index(token).filter(|later| *later > index);
        later.is_some_and(|later| {
            all[later].owner != all[index].owner
                && !(all[later].can_share() && all[index].can_share())
        })
    }

    /// Whether this reply or an earlier one told that the grant is lost, or in another session.
    fn is_told(&self, poll: &Poll, index: usize) -> bool {
        let tokens = &self.grants.all()[index].tokens;
        let mut told = self.story.polls.iter();
        told.any(|other| {
            let mut gone = other.gone.iter();
            (other.session, other.ended <= poll.ended) == (poll.session, true)
                && gone.any(|(key, token)| key == self.story.key && tokens.contains(token))
        })
    }

    /// Whether a grant can have ended by force after a POLL was sent, or in a loss after it was asked for.
    fn ends_by_force(&self, asked: Moment, heard: Moment, taken: Moment) -> bool {
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

    /// Whether a renewal by its owner may have shortened the lease meanwhile.
    fn may_be_shortened(&self, from: Moment, to: Moment, index: usize) -> bool {
        let owner = self.grants.all()[index].owner;
        self.story.calls.iter().any(|call| {
            call.owner == owner
                && matches!(call.action, Action::Renew(Renew { lease: Some(_), .. }))
                && matches!(call.outcome, Outcome::Grant(_) | Outcome::Lost)
                && call.sent <= to
                && call.ended >= from
        })
    }
}

/// Until when the reply promises something.
fn sure_until(poll: &Poll) -> Moment {
    let sure = poll.sure.and_then(|sure| u64::try_from(sure).ok());
    let sent = i64::try_from(poll.sent).unwrap_or(i64::MAX);
    let until = sure.map(|sure| earliest_end(sent, sure));
    until.map_or(0, |until| Moment::try_from(until).unwrap_or(0))
}
