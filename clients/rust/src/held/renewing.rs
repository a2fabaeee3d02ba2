//! The lease of a grant begins anew.

use super::Held;
use crate::Error;
use crate::request::{Change, Life};
use crate::server::commands::after;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

impl Held {
    /// The lease begins anew, changed in this way.
    pub(crate) async fn renew(
        self: &Arc<Self>,
        change: Change,
        until: Instant,
    ) -> Result<(), Error> {
        let _calls = self.calls_until(until).await?;
        self.still()?;
        let before = change.lease.and_then(|lease| self.shorten(lease));
        if change.keep == Some(Duration::ZERO) {
            self.term().may_be_unkept = true;
        }
        let backend = &self.owned.backend;
        let renewed = backend
            .renew(&self.grant, self.own_kept(), change, until)
            .await;
        if let (Err(error), Some((lease, known))) = (&renewed, before)
            && !matches!(error, Error::Unavailable(_) | Error::Lost(_))
        {
            self.set_lease(lease, known);
        }
        let renewed = self.noted(renewed)?.granted;
        match change.keep {
            Some(Duration::ZERO) => {
                self.term().is_winding_down = true;
                self.kept_by_nobody();
            }
            Some(keep) => self.term().life.keep = Some(keep),
            None => {}
        }
        self.set_lease(renewed.lease, renewed.known_until);
        tracing::debug!(key = %self.key(), token = self.grant.token, "lock renewed");
        Ok(())
    }

    /// Who enters it again may ask for a longer lease, or a longer silence: both count from then on.
    pub(crate) async fn lengthen(
        self: &Arc<Self>,
        life: Life,
        until: Instant,
    ) -> Result<(), Error> {
        let present = self.life();
        let change = Change {
            lease: Some(life.lease).filter(|lease| *lease > present.lease),
            keep: (life.keep).filter(|_| present.keep.is_some() && life.keep > present.keep),
            shares: false,
        };
        let is_longer = change.lease.is_some() || change.keep.is_some();
        if !is_longer || self.is_winding_down() {
            return Ok(());
        }
        self.renew(change, until).await
    }

    /// A shorter lease counts from before it is asked for: without an answer, nobody knows which one it is. The lease
    /// and the end before, where it is shorter.
    fn shorten(self: &Arc<Self>, lease: Duration) -> Option<(Duration, Instant)> {
        let before = (self.life().lease, self.known_until());
        // None at all is refused.
        let is_shorter = !lease.is_zero() && lease < before.0;
        is_shorter.then(|| {
            self.set_lease(lease, before.1.min(after(Instant::now(), lease)));
            before
        })
    }

    fn set_lease(self: &Arc<Self>, lease: Duration, known_until: Instant) {
        {
            let mut term = self.term();
            term.life.lease = lease;
            term.known_until = known_until;
        }
        if let Some(keeper) = self.keeper() {
            // For its pace. When it has closed, it gives the grant on.
            let _ = self.kept_by(&keeper);
        }
        self.changed.notify_one();
    }
}
