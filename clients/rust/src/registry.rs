//! The grants that this process holds.

use crate::Guard;
use crate::background::Background;
use crate::held::Held;
use crate::owner::Owner;
use crate::request::{Grant, Life};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::OwnedMutexGuard;
use tokio::time::sleep;

/// All of them, to release them in the end; those of owners that acquire more than once also by key and
/// owner, for re-entry.
#[derive(Default)]
pub(crate) struct Registry(Mutex<State>);

#[derive(Default)]
struct State {
    held: HashMap<u64, Weak<Held>>,
    places: HashMap<(Vec<u8>, String), Weak<Place>>,
    is_closed: bool,
}

/// What one owner has of one lock.
#[derive(Default)]
pub(crate) struct Place {
    /// Its acquires come one after another: what one asks for depends on what the one before it got.
    turn: Arc<tokio::sync::Mutex<()>>,
    is_undone: AtomicBool,
    grant: Mutex<Present>,
}

#[derive(Default)]
struct Present {
    held: Weak<Held>,
    /// The token of the last grant that was released. Who is granted it once more has asked before the release came to
    /// the server, which then ends it.
    released: Option<u64>,
}

impl Present {
    /// Of an earlier one, the release has been on its way before.
    fn releases(&mut self, token: u64) {
        self.released = self.released.max(Some(token));
    }
}

/// An acquire of an owner, for as long as one of these is there.
#[derive(Clone)]
pub(crate) struct Turn {
    _turn: Arc<OwnedMutexGuard<()>>,
    // So that the next one finds the same.
    place: Arc<Place>,
}

impl Turn {
    /// What its acquire may have done is undone; who waits for it meanwhile waits for an answer of the server.
    pub(crate) async fn undo<T>(&self, undo: impl Future<Output = T>) -> T {
        self.place.is_undone.store(true, Relaxed);
        let done = undo.await;
        self.place.is_undone.store(false, Relaxed);
        done
    }

    pub(crate) fn place(&self) -> &Arc<Place> {
        &self.place
    }
}

impl Place {
    /// Waits until no other acquire of the owner is under way.
    pub(crate) async fn turn(self: &Arc<Self>) -> Turn {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        Turn {
            _turn: Arc::new(turn),
            place: Arc::clone(self),
        }
    }

    /// Whether the acquire that has the turn is being undone.
    pub(crate) fn is_undone(&self) -> bool {
        self.is_undone.load(Relaxed)
    }

    /// Joins those who hold it now, if anybody does. What others have in the name of a task is not the task's: it goes
    /// on by another one.
    pub(crate) fn join(&self, whose: &Owner) -> Option<Guard> {
        let present = self.present();
        let held = present.held.upgrade()?;
        if let Owner::Task(task) = whose
            && held.is_known_to_others()
        {
            task.calls_off(&held.grant().owner);
            drop(present);
            return None;
        }
        // Dropped after the lock: it may be the last to know of the grant.
        let joined = held.join_others();
        drop(present);
        joined.then(|| Guard::joining(held))
    }

    /// Whether somebody holds this grant now.
    pub(crate) fn is_held(&self, token: u64) -> bool {
        let held = self.present().held.upgrade();
        held.is_some_and(|held| held.grant().token == token && !held.is_over())
    }

    pub(crate) fn set(&self, held: &Arc<Held>) {
        self.present().held = Arc::downgrade(held);
    }

    /// Does this while nobody joins. Where it says that it was the last who held the grant with this token, the
    /// release of that is on its way.
    pub(crate) fn leave(&self, token: u64, leave: impl FnOnce() -> bool) {
        let mut present = self.present();
        if leave() {
            present.releases(token);
        }
    }

    /// The release of a grant is on its way.
    pub(crate) fn releases(&self, token: u64) {
        self.present().releases(token);
    }

    /// It is not: the grant is somebody else's.
    pub(crate) fn leaves(&self, token: u64) {
        let mut present = self.present();
        if present.released == Some(token) {
            present.released = None;
        }
    }

    /// A release had no answer: this is there for as long as the server may have the grant.
    pub(crate) fn stays(self: &Arc<Self>, life: Life, background: &Background) {
        let place = Arc::clone(self);
        let stands = life.lease.saturating_add(life.keep.unwrap_or_default());
        background.start_service(async move {
            sleep(stands).await;
            drop(place);
        });
    }

    /// Whether this grant has been released, or that is on its way.
    pub(crate) fn is_released(&self, token: u64) -> bool {
        self.present().released == Some(token)
    }

    fn present(&self) -> MutexGuard<'_, Present> {
        self.grant.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    /// Where this owner has this key.
    pub(crate) fn place(&self, key: &[u8], owner: &str) -> Arc<Place> {
        let mut state = self.state();
        let name = (key.to_vec(), owner.to_owned());
        if let Some(place) = state.places.get(&name).and_then(Weak::upgrade) {
            return place;
        }
        if state.places.len() == state.places.capacity() {
            state.places.retain(|_, place| place.strong_count() > 0);
        }
        let place = Arc::default();
        state.places.insert(name, Arc::downgrade(&place));
        place
    }

    /// Joins those who hold this grant, whoever its owner is.
    pub(crate) fn join(&self, grant: &Grant) -> Option<Guard> {
        // Dropped after the lock: each may be the last to know of its grant.
        let held: Vec<_> = self
            .state()
            .held
            .values()
            .filter_map(Weak::upgrade)
            .collect();
        let mut held = held.into_iter();
        let joined = held.find(|held| held.grant() == grant && held.join_others());
        joined.map(Guard::joining)
    }

    /// Takes a new one in. When closed it does not, and the caller is to give the grant back.
    #[must_use]
    pub(crate) fn add(&self, held: &Arc<Held>) -> bool {
        let mut state = self.state();
        if !state.is_closed {
            state.held.insert(held.number(), Arc::downgrade(held));
        }
        !state.is_closed
    }

    /// A grant is dropped.
    pub(crate) fn forget(&self, number: u64) {
        self.state().held.remove(&number);
    }

    /// Takes in no more, and gives out all that there are.
    pub(crate) fn close(&self) -> Vec<Arc<Held>> {
        let mut state = self.state();
        state.is_closed = true;
        state.held.values().filter_map(Weak::upgrade).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
