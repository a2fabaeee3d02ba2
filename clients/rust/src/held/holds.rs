//! The holds of a grant: one for each guard.

use super::Held;
use crate::owner::Owner;
use crate::registry::Turn;
use crate::request::{Change, Grant, Mode};
use crate::server::CallError;
use crate::{Error, Loss};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use tokio::time::{Instant, timeout_at};

impl Held {
    /// One more guard shares this grant.
    pub(crate) fn join(&self) {
        self.guards.fetch_add(1, SeqCst);
    }

    /// The same, if there are others and it stands.
    pub(crate) fn join_others(&self) -> bool {
        let one_more = |guards| (guards > 0).then_some(guards + 1);
        !self.is_over()
            && self.loss().is_none()
            && self.guards.fetch_update(SeqCst, SeqCst, one_more).is_ok()
    }

    /// From now on nobody keeps it: its only guard leaves it to somebody else. Who asks for it here, in the name of the
    /// same owner, comes after that. A task would enter it again by its present name, and takes another one.
    pub(crate) async fn detach(self: &Arc<Self>) -> Result<Vec<Turn>, Error> {
        self.still()?;
        let until = self.soon();
        let turns = self.turns(until).await?;
        if self.guards.load(SeqCst) > 1 {
            return Err(Error::misuse("the owner has other holds of it"));
        }
        if self.life().keep.is_some() {
            self.renew(Change::UNKEPT, until).await?;
        }
        // Or it has been closed meanwhile.
        self.still()?;
        if let Owner::Task(task) = &self.whose {
            task.calls_off(&self.grant.owner);
        }
        Ok(turns)
    }

    /// Nobody here wants it any more, and nobody keeps it from now on.
    pub(crate) async fn abandon(&self) {
        if self.life().keep.is_none() {
            return;
        }
        let until = self.soon();
        let Ok(_calls) = self.calls_until(until).await else {
            return;
        };
        let backend = &self.owned.backend;
        let ended = backend
            .renew(&self.grant, self.own_kept(), Change::UNKEPT, until)
            .await;
        if ended.is_err_and(|error| !matches!(error, Error::Lost(_))) {
            self.keeps_no_more();
        }
    }

    /// That of whoever acquires, and that of whoever adopts: a task is known here by its first name.
    async fn turns(&self, until: Instant) -> Result<Vec<Turn>, Error> {
        let mut turns = vec![self.turn(until).await?];
        let Grant { key, owner, .. } = &self.grant;
        let by_name = self.owned.registry.place(key, owner);
        if !Arc::ptr_eq(&by_name, turns[0].place()) {
            let turn = timeout_at(until, by_name.turn()).await;
            turns.push(turn.map_err(|_| CallError::silence())?);
        }
        Ok(turns)
    }

    /// As long as this is there, no other acquire or adoption of the owner is under way.
    pub(crate) async fn turn(&self, until: Instant) -> Result<Turn, Error> {
        let Grant { key, owner, .. } = &self.grant;
        let place = self.place.clone();
        let place = place.unwrap_or_else(|| self.owned.registry.place(key, owner));
        let turn = timeout_at(until, place.turn()).await;
        turn.map_err(|_| CallError::silence().into())
    }

    /// A guard less, which may release its hold next; with the last one all keeping ends.
    pub(crate) fn leave(&self, releases: bool) {
        let mut is_last = false;
        let mut leave = || {
            is_last = self.guards.fetch_sub(1, SeqCst) == 1;
            is_last && releases && self.loss().is_none()
        };
        match &self.place {
            Some(place) => place.leave(self.grant.token, &mut leave),
            None => {
                leave();
            }
        }
        if is_last {
            self.end();
        }
    }

    /// One more hold; not when the last one has been given back meanwhile.
    pub(crate) async fn enter(self: &Arc<Self>, mode: Mode, until: Instant) -> Result<bool, Error> {
        let mut holds = self.calls_until(until).await?;
        self.still()?;
        if *holds == 0 {
            return Ok(false);
        }
        let wanted = *holds + 1;
        let mut unknown = Unknown(Some(self));
        let entered = self
            .owned
            .backend
            .enter(&self.grant, wanted, mode, until)
            .await;
        if !matches!(entered, Err(Error::Unavailable(_))) {
            unknown.0 = None;
        }
        let known_until = self.noted(entered)?;
        *holds = wanted;
        // Re-entry never shortens.
        self.stands_until(known_until);
        Ok(true)
    }

    /// Gives one hold back: once for each guard.
    pub(crate) async fn release(&self) -> Result<(), Error> {
        let until = Instant::now() + self.owned.release_time;
        let mut holds = self.holds.lock().await;
        if let Some(loss) = self.loss() {
            self.is_left(loss);
            return Err(Error::Lost(loss));
        }
        let left = holds.saturating_sub(1);
        if left == 0 {
            self.releases();
            self.end();
        }
        let released = match left {
            0 => self.free(until).await,
            _ => self.leave_holds(left, until).await,
        };
        // Also without an answer: the next release says how many are to be left then.
        *holds = left;
        let released = self.noted(released);
        if left == 0 {
            self.was_released(&released);
            self.tell_release(&released);
        }
        released?;
        tracing::debug!(key = %self.key(), token = self.grant.token, left, "lock released");
        Ok(())
    }

    /// Gives all holds back, whatever is known of the grant.
    pub(crate) async fn release_all(&self) -> Result<(), Error> {
        let until = Instant::now() + self.owned.release_time;
        self.releases();
        let released = self.free(until).await;
        if let Err(error) = &released {
            tracing::debug!(key = %self.key(), token = self.grant.token, %error, "not released");
        }
        self.was_released(&released);
        released
    }

    /// The same, with nobody waiting for it.
    pub(crate) fn release_unheard(self: &Arc<Self>) {
        self.releases();
        let held = Arc::clone(self);
        self.owned.background.start(async move {
            let _ = held.release_all().await;
        });
    }

    async fn free(&self, until: Instant) -> Result<(), Error> {
        let freed = self.leave_holds(0, until).await;
        if let Err(Error::Lost(loss)) = &freed {
            self.is_left(*loss);
        }
        freed
    }

    async fn leave_holds(&self, holds: u32, until: Instant) -> Result<(), Error> {
        let backend = &self.owned.backend;
        let own = self.own_kept();
        backend.release(&self.grant, own, holds, until).await
    }

    /// What somebody else has is not released here.
    fn is_left(&self, loss: Loss) {
        if let (Loss::KeptElsewhere, Some(place)) = (loss, &self.place) {
            place.leaves(self.grant.token);
        }
    }

    /// The server is to count as many holds as are known of here: it may have one more.
    async fn set_holds(&self) {
        let until = Instant::now() + self.owned.release_time;
        let holds = self.holds.lock().await;
        if *holds > 0 && self.loss().is_none() {
            let set = self.leave_holds(*holds, until).await;
            let _ = self.noted(set);
        }
    }

    fn releases(&self) {
        if let Some(place) = &self.place {
            place.releases(self.grant.token);
        }
    }

    /// Where nobody can end it, it would be kept on by the last keeper, for nobody.
    pub(crate) fn keeps_no_more(&self) {
        if !self.is_winding_down()
            && let Some(keeper) = self.last_keeper().upgrade()
        {
            keeper.link.close();
        }
    }

    fn was_released(&self, outcome: &Result<(), Error>) {
        if let Err(error) = outcome
            && !matches!(error, Error::Lost(_))
        {
            self.keeps_no_more();
        }
        if let (Some(place), Err(Error::Unavailable(_))) = (&self.place, outcome) {
            place.stays(self.life(), &self.owned.background);
        }
    }
}

/// A hold of which nobody knows whether the server has given it.
struct Unknown<'a>(Option<&'a Arc<Held>>);

impl Drop for Unknown<'_> {
    fn drop(&mut self) {
        if let Some(held) = self.0.map(Arc::clone) {
            let background = held.owned.background.clone();
            background.start(async move { held.set_holds().await });
        }
    }
}
