//! Going on with a grant that was made elsewhere.

use super::Locks;
use crate::held::Owned;
use crate::owner::Owner;
use crate::registry::Turn;
use crate::request::{Change, Grant, Life, Mode, Wait};
use crate::server::SentTo;
use crate::{Error, Guard, Loss};
use tokio::time::Instant;

impl Locks {
    pub(crate) async fn adopt_as(&self, grant: Grant, life: Life) -> Result<Guard, Error> {
        let locks = self.clone();
        let adopting = async move { locks.unless_closing(locks.adopt_in_turn(grant, life)).await };
        let mut adoption = self.shared.owned.background.run(adopting).await?;
        adoption.is_open = false;
        adoption.guard.take().ok_or_else(Error::closed)
    }

    async fn adopt_in_turn(&self, grant: Grant, life: Life) -> Result<Adoption, Error> {
        let Owned {
            registry, backend, ..
        } = &self.shared.owned;
        let place = registry.place(&grant.key, &grant.owner);
        let until = Instant::now() + self.shared.defaults.times.reply;
        let turn = self.turn(&place, Wait::Now(until)).await?;
        let mut adoption = Adoption {
            locks: self.clone(),
            grant: grant.clone(),
            turn,
            guard: None,
            is_new: false,
            is_open: false,
            sent_to: None,
        };
        if let Some(joining) = registry.join(&grant)
            && let Some(guard) = joining.joined(Mode::Shared, until).await?
        {
            adoption.guard = Some(guard.renewed(life.lease, until).await?);
            return Ok(adoption);
        }
        adoption.is_open = life.keep.is_some();
        let change = Change {
            lease: Some(life.lease),
            keep: life.keep,
            shares: false,
        };
        let sent_to = &mut adoption.sent_to;
        let renewed = backend.adopt(&grant, change, until, sent_to).await;
        adoption.is_open &= matches!(renewed, Ok(_) | Err(Error::Unavailable(_)));
        let obtained = renewed?;
        if place.is_released(grant.token) {
            return Err(Error::Lost(Loss::NotHeld)); // or will be, when that release comes
        }
        let whose = Owner::Named(grant.owner);
        let guard = self.hold(obtained, life, Some(place), whose)?;
        guard.follow();
        adoption.guard = Some(guard);
        adoption.is_new = true;
        Ok(adoption)
    }
}

/// The taking over of a grant. Where it ends without one, the grant may be kept by this client all the same.
struct Adoption {
    locks: Locks,
    grant: Grant,
    turn: Turn,
    guard: Option<Guard>,
    /// It was not held here before.
    is_new: bool,
    /// It may be kept here.
    is_open: bool,
    sent_to: SentTo,
}

impl Drop for Adoption {
    fn drop(&mut self) {
        let guard = self.guard.take();
        if let Some(guard) = guard.filter(|_| self.is_new) {
            guard.abandon(self.turn.clone());
        } else if self.is_open {
            let backend = &self.locks.shared.owned.backend;
            let sent_to = self.sent_to.take();
            backend.keep_no_more(self.grant.clone(), sent_to, self.turn.clone());
        }
    }
}
