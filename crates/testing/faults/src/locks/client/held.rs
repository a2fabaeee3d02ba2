//! A client's knowledge of its own grant.

use history::{Limit, Outcome, Refusal};

/// A client's knowledge of its own grant.
pub(super) struct Held {
    pub(super) key: String,
    pub(super) owner: String,
    pub(super) token: u64,
    pub(super) holds: u32,
    pub(super) lease: u64,
    /// How many holders it allows; none where nobody knows.
    pub(super) limit: Option<Limit>,
}

/// How a step under the lock went.
pub(super) enum Step {
    Done,
    /// The lock is lost, or nobody knows.
    Lost,
}

impl Held {
    /// The grant that was the reply to a call of this owner, if it was one.
    pub(super) fn of(key: &str, owner: &str, outcome: &Outcome) -> Option<Self> {
        let Outcome::Grant(told) = outcome else {
            return None;
        };
        Some(Self {
            key: key.to_owned(),
            owner: owner.to_owned(),
            token: told.token,
            holds: told.holds,
            lease: told.lease,
            limit: told.limit.or(Some(Limit::ONE)),
        })
    }

    pub(super) fn is_alone(&self) -> bool {
        self.limit == Some(Limit::ONE)
    }

    /// How a call names this limit that keeps it.
    pub(super) fn named_limit(&self) -> Option<Limit> {
        self.limit.filter(|limit| *limit != Limit::ONE)
    }

    /// Takes over what a reply tells of the grant, to a call with this limit.
    pub(super) fn learn(
        &mut self,
        outcome: &Outcome,
        asked: Option<Limit>,
        acquires: bool,
    ) -> Step {
        match outcome {
            Outcome::Grant(told) => {
                self.token = told.token;
                self.holds = told.holds;
                if told.limit.is_some() {
                    self.limit = told.limit;
                } else if acquires {
                    self.limit = Some(Limit::ONE);
                }
                Step::Done
            }
            Outcome::Left(holds) => {
                self.holds = *holds;
                Step::Done
            }
            Outcome::Nil
            | Outcome::Lost
            | Outcome::GivenBack
            | Outcome::Refused(Refusal::NotHeld | Refusal::NotOwner | Refusal::Fenced) => {
                Step::Lost
            }
            // It was not sent, or came to nothing; sent twice, it may have come to something at first.
            Outcome::Done
            | Outcome::Holders(_)
            | Outcome::Untouched
            | Outcome::Refused(Refusal::Ahead | Refusal::NotAlone | Refusal::Deadlock) => {
                if asked.is_some() || acquires {
                    self.limit = None;
                }
                Step::Done
            }
        }
    }
}
