//! The grants that this process holds.

use crate::held::Held;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::OwnedMutexGuard;

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
    held: Mutex<Weak<Held>>,
}

/// An acquire of an owner, for as long as one of these is there.
#[derive(Clone)]
pub(crate) struct Turn {
    _turn: Arc<OwnedMutexGuard<()>>,
    // So that the next one finds the same.
    _place: Arc<Place>,
}

impl Place {
    /// Waits until no other acquire of the owner is under way.
    pub(crate) async fn turn(self: &Arc<Self>) -> Turn {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        Turn {
            _turn: Arc::new(turn),
            _place: Arc::clone(self),
        }
    }

    /// What it holds now.
    pub(crate) fn held(&self) -> Option<Arc<Held>> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.upgrade().filter(|held| !held.is_over())
    }

    pub(crate) fn set(&self, held: &Arc<Held>) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(held);
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
