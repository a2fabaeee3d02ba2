//! The holds that a call gives back after its client has disconnected.

use super::call::{Amount, Taken};
use crate::{Holders, Holds, OwnerBuf, ReleaseAmount, Token};

/// The hold or the grant that a call gives back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GiveBack {
    /// The owner of the grant.
    pub owner: OwnerBuf,
    /// The client that may not have got the reply.
    pub client_id: u64,
    pub(super) taken: Taken,
    pub(super) amount: Amount,
}

impl GiveBack {
    /// The token of the grant.
    #[must_use]
    pub const fn token(&self) -> Token {
        self.taken.token
    }

    /// How many holds to release; `None` if there is nothing to give back. If the call has narrowed the limit, the
    /// limit stays narrow.
    #[must_use]
    pub fn amount_to_release(&self, holders: Option<&Holders<'_>>) -> Option<ReleaseAmount> {
        let holder = holders?.uncapped(self.taken.token)?;
        let holds = holder.grant.holds;
        let is_unchanged = (holds, holder.end) == (self.taken.holds, self.taken.deadline);
        match self.amount {
            Amount::Grant => Some(ReleaseAmount::All),
            Amount::UnchangedGrant => is_unchanged.then_some(ReleaseAmount::All),
            // The last hold belongs to the other call, which was answered.
            Amount::Hold if holds == Holds::ONE => None,
            Amount::Hold => self.taken.took_hold.then_some(ReleaseAmount::One),
        }
    }
}
