//! One grant that this process holds, shared by all its guards.

mod holds;
mod renewing;
mod telling;

use crate::backend::{Backend, Obtained};
use crate::background::Background;
use crate::observer::Reports;
use crate::owner::Owner;
use crate::registry::{Place, Registry};
use crate::request::{Grant, Life};
use crate::server::commands::after;
use crate::server::{CallError, Keeper, Own};
use crate::{Error, Loss};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// What belongs to a client and is needed for each of its grants.
#[derive(Clone)]
pub(crate) struct Owned {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) background: Background,
    pub(crate) registry: Arc<Registry>,
    pub(crate) reports: Reports,
    pub(crate) reply_time: Duration,
    pub(crate) release_time: Duration,
}

/// What is known of a grant.
pub(crate) struct Held {
    owned: Owned,
    number: u64,
    grant: Grant,
    since: Instant,
    /// Where its owner finds it again.
    place: Option<Arc<Place>>,
    whose: Owner,
    /// How many guards there are.
    guards: AtomicUsize,
    /// How many holds there are here; the server may count more, which the owner has taken elsewhere. Locked for the
    /// length of each call about this grant: what a call asks for depends on what the one before it came to.
    holds: tokio::sync::Mutex<u32>,
    term: Mutex<Term>,
    keeping: Mutex<Option<Keeping>>,
    /// Where it was kept last.
    last_keeper: Mutex<Weak<Keeper>>,
    /// The term has been changed.
    changed: Notify,
    lost: CancellationToken,
    /// It is released or lost: nothing is left to look after.
    over: CancellationToken,
}

#[derive(Clone, Copy)]
struct Term {
    life: Life,
    /// Until when it is known to stand, by the last call about it.
    known_until: Instant,
    /// When it ends in any case.
    ends: Option<Instant>,
    is_winding_down: bool,
    /// It has been asked for that nobody keeps it: its last keeper is not closed then for the next one who does.
    may_be_unkept: bool,
    loss: Option<Loss>,
    /// Somebody has it, so that its end is told to the observer.
    is_followed: bool,
}

/// It is kept here, and was before each PING that is sent after this time.
struct Keeping {
    keeper: Arc<Keeper>,
    since: Instant,
}

impl Held {
    pub(crate) fn new(
        owned: Owned,
        obtained: &Obtained,
        life: Life,
        place: Option<Arc<Place>>,
        whose: Owner,
    ) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let granted = &obtained.granted;
        let lost = owned.background.ended().child_token();
        Self {
            owned,
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            grant: granted.grant.clone(),
            since: Instant::now(),
            place,
            whose,
            guards: AtomicUsize::new(0),
            holds: tokio::sync::Mutex::new(1),
            term: Mutex::new(Term {
                life,
                known_until: granted.known_until,
                ends: life.at_most.map(|time| after(Instant::now(), time)),
                is_winding_down: false,
                may_be_unkept: false,
                loss: None,
                is_followed: false,
            }),
            keeping: Mutex::default(),
            last_keeper: Mutex::default(),
            changed: Notify::new(),
            lost,
            over: CancellationToken::new(),
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn grant(&self) -> &Grant {
        &self.grant
    }

    pub(crate) fn life(&self) -> Life {
        self.term().life
    }

    /// Others may know the owner, and so end the grant or keep it: it was named, or the grant adopted.
    pub(crate) fn is_known_to_others(&self) -> bool {
        self.whose.is_named()
    }

    pub(crate) fn ends(&self) -> Option<Instant> {
        self.term().ends
    }

    pub(crate) fn is_winding_down(&self) -> bool {
        self.term().is_winding_down
    }

    /// Until when it is known to stand, by the last call about it or the last PING that tells of it.
    pub(crate) fn known_until(&self) -> Instant {
        let term = *self.term();
        let by_ping = self.keeping().as_ref().and_then(|keeping| {
            let proof = keeping.keeper.proof()?;
            (proof >= keeping.since).then(|| after(proof, term.life.lease))
        });
        let known = by_ping.map_or(term.known_until, |known| known.max(term.known_until));
        term.ends.map_or(known, |ends| known.min(ends))
    }

    /// A call that was sent at this time has told that it stands.
    pub(crate) fn known_since(&self, sent: Instant) {
        self.stands_until(after(sent, self.life().lease));
    }

    /// It is known to stand until then, or longer.
    pub(crate) fn stands_until(&self, known: Instant) {
        let mut term = self.term();
        term.known_until = term.known_until.max(known);
    }

    /// How it was lost, if it was.
    pub(crate) fn loss(&self) -> Option<Loss> {
        let has_ended = self.owned.background.ended().is_cancelled();
        let loss = self.term().loss;
        loss.or(has_ended.then_some(Loss::Closed))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    pub(crate) fn over(&self) -> &CancellationToken {
        &self.over
    }

    pub(crate) fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Comes back when the lease is another.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// From now on it is kept here; not when that has closed.
    #[must_use]
    pub(crate) fn kept_by(self: &Arc<Self>, keeper: &Arc<Keeper>) -> bool {
        let known = self.known_until();
        let life = self.life();
        let pace = life.keep.map_or(life.lease, |keep| keep.min(life.lease));
        self.stands_until(known);
        // When a keeper ends meanwhile, it has it or not: what it has it gives on.
        let mut keeping = self.keeping();
        if !keeper.add(self, pace) {
            return false;
        }
        let before = keeping.replace(Keeping {
            keeper: Arc::clone(keeper),
            since: Instant::now(),
        });
        drop(keeping);
        *self.last_keeper() = Arc::downgrade(keeper);
        self.term().may_be_unkept = false;
        if let Some(Keeping { keeper: before, .. }) = before
            && !Arc::ptr_eq(&before, keeper)
        {
            before.remove(self.number);
        }
        if self.is_over() {
            self.kept_by_nobody();
        }
        true
    }

    /// Where it is kept.
    pub(crate) fn keeper(&self) -> Option<Arc<Keeper>> {
        let keeping = self.keeping();
        keeping.as_ref().map(|keeping| Arc::clone(&keeping.keeper))
    }

    /// What others may have by now, where they may.
    pub(crate) fn own(&self) -> Option<Own<'_>> {
        self.is_known_to_others().then(|| Own {
            owner: &self.grant.owner,
            token: Some(self.grant.token),
            kept_by: if self.term().may_be_unkept {
                Weak::new()
            } else {
                Weak::clone(&self.last_keeper())
            },
        })
    }

    /// The same of what is kept. Who has it for a fixed time ends it for all.
    fn own_kept(&self) -> Option<Own<'_>> {
        self.own().filter(|_| self.life().keep.is_some())
    }

    fn kept_by_nobody(&self) {
        let keeping = self.keeping().take();
        if let Some(Keeping { keeper, .. }) = keeping {
            keeper.remove(self.number);
        }
    }

    /// It is not held any more. The first reason stands.
    pub(crate) fn lose(&self, loss: Loss) {
        let mut term = self.term();
        if term.loss.is_some() || self.is_over() {
            return;
        }
        term.loss = Some(loss);
        let is_followed = term.is_followed;
        drop(term);
        let Grant { owner, token, .. } = &self.grant;
        if loss == Loss::Closed {
            tracing::debug!(key = %self.key(), owner, token, "lock given back");
        } else {
            tracing::warn!(key = %self.key(), owner, token, %loss, "lock lost");
        }
        self.lost.cancel();
        self.end();
        if is_followed {
            self.tell_loss(loss);
        }
    }

    /// Nothing is left to look after.
    fn end(&self) {
        self.over.cancel();
        self.kept_by_nobody();
    }

    /// No other call about this grant goes out while this is there.
    pub(crate) async fn calls(&self) -> impl Drop {
        self.holds.lock().await
    }

    /// The same, where that is not until too late.
    pub(crate) async fn calls_until(
        &self,
        until: Instant,
    ) -> Result<tokio::sync::MutexGuard<'_, u32>, Error> {
        let calls = timeout_at(until, self.holds.lock()).await;
        calls.map_err(|_| CallError::silence().into())
    }

    /// Asks whether it stands.
    pub(crate) async fn check(self: &Arc<Self>) -> Result<(), Error> {
        self.still()?;
        let until = self.soon();
        let backend = Arc::clone(&self.owned.backend);
        let checked = backend.check(self, until).await;
        self.noted(checked)
    }

    /// A time to which a call may be repeated while somebody waits for it.
    pub(crate) fn soon(&self) -> Instant {
        Instant::now() + self.owned.reply_time
    }

    /// The key, to look at.
    pub(crate) fn key(&self) -> String {
        String::from_utf8_lossy(&self.grant.key).into_owned()
    }

    pub(crate) fn background(&self) -> &Background {
        &self.owned.background
    }

    fn still(&self) -> Result<(), Error> {
        self.loss().map_or(Ok(()), |loss| Err(Error::Lost(loss)))
    }

    /// Takes note of a loss that an answer tells of.
    fn noted<T>(&self, outcome: Result<T, Error>) -> Result<T, Error> {
        if let Err(Error::Lost(loss)) = &outcome {
            self.lose(*loss);
        }
        outcome
    }

    fn term(&self) -> MutexGuard<'_, Term> {
        self.term.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last_keeper(&self) -> MutexGuard<'_, Weak<Keeper>> {
        let keeper = self.last_keeper.lock();
        keeper.unwrap_or_else(PoisonError::into_inner)
    }

    fn keeping(&self) -> MutexGuard<'_, Option<Keeping>> {
        self.keeping.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.kept_by_nobody();
        self.owned.registry.forget(self.number);
    }
}
