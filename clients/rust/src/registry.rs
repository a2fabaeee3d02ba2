//! The grants that this process holds.

use crate::backend::Grant;
use crate::held::Held;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// By key and owner: for re-entry, and to release them all in the end.
#[derive(Default)]
pub(crate) struct Registry(Mutex<State>);

#[derive(Default)]
struct State {
    held: HashMap<(Vec<u8>, String), Weak<Held>>,
    is_closed: bool,
}

impl Registry {
    /// What this owner holds under this key.
    pub(crate) fn find(&self, key: &[u8], owner: &str) -> Option<Arc<Held>> {
        let state = self.state();
        let held = state.held.get(&(key.to_vec(), owner.to_owned()))?.upgrade();
        held.filter(|held| !held.is_over())
    }

    /// Takes a new one in. When closed it does not, and the caller is to give the grant back.
    #[must_use]
    pub(crate) fn add(&self, held: &Arc<Held>) -> bool {
        let mut state = self.state();
        if !state.is_closed {
            let name = name(held.grant());
            state.held.insert(name, Arc::downgrade(held));
        }
        !state.is_closed
    }

    /// A grant is dropped.
    pub(crate) fn forget(&self, grant: &Grant) {
        let mut state = self.state();
        let name = name(grant);
        // A later grant of the same owner may have taken the place.
        if state
            .held
            .get(&name)
            .is_some_and(|held| held.strong_count() == 0)
        {
            state.held.remove(&name);
        }
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

fn name(grant: &Grant) -> (Vec<u8>, String) {
    (grant.key.clone(), grant.owner.clone())
}
