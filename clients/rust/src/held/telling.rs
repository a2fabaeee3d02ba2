//! What the observer is told of a grant.

use super::Held;
use crate::{Error, Loss};
use std::time::Duration;

impl Held {
    /// It was taken, after so long: the caller has it.
    pub(crate) fn announce(&self, took: Duration) {
        let key = &self.grant.key;
        self.owned.reports.tell(|it| it.acquired(key, took));
        self.follow();
    }

    /// From now on its end is told: somebody has it.
    pub(crate) fn follow(&self) {
        let mut term = self.term();
        let loss = term.loss.filter(|_| !term.is_followed);
        term.is_followed = true;
        drop(term);
        if let Some(loss) = loss {
            self.tell_loss(loss);
        }
    }

    /// A close is told as the release that it is.
    pub(super) fn tell_loss(&self, loss: Loss) {
        if loss != Loss::Closed {
            let key = &self.grant.key;
            self.owned.reports.tell(|it| it.lost(key, loss));
        }
    }

    /// The last hold was given back. It may have been found to be lost by that.
    pub(crate) fn tell_release(&self, outcome: &Result<(), Error>) {
        if !self.term().is_followed {
            return;
        }
        if let Err(Error::Lost(loss)) = outcome {
            self.tell_loss(*loss);
        }
        let (key, held) = (&self.grant.key, self.since.elapsed());
        let error = outcome.as_ref().err();
        self.owned.reports.tell(|it| it.released(key, held, error));
    }
}
