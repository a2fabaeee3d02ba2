//! Connections on which calls wait: as many as wait at one time, and some that are idle.

use super::Link;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How many stay while nobody needs them.
const MOST: usize = 16;
/// And how long.
pub(crate) const LONGEST: Duration = Duration::from_secs(60);

/// Those of one server that are idle, the last used one at the back.
#[derive(Default)]
pub(crate) struct Pool(Mutex<State>);

#[derive(Default)]
struct State {
    idle: VecDeque<(Link, Instant)>,
    /// Somebody comes back to look after them.
    is_looked_after: bool,
}

impl Pool {
    pub(crate) fn take(&self) -> Option<Link> {
        let mut state = self.state();
        while let Some((link, _)) = state.idle.pop_back() {
            if !link.is_closed() {
                return Some(link);
            }
        }
        None
    }

    /// Takes an idle one in; whether somebody has to [`tidy`](Self::tidy) from now on.
    pub(crate) fn give_back(&self, link: Link) -> bool {
        let mut state = self.state();
        if link.is_closed() {
            return false;
        }
        state.idle.push_back((link, Instant::now()));
        if state.idle.len() > MOST {
            state.idle.pop_front();
        }
        !std::mem::replace(&mut state.is_looked_after, true)
    }

    /// Closes those that nobody has needed for long; whether there are others.
    pub(crate) fn tidy(&self) -> bool {
        let mut state = self.state();
        let now = Instant::now();
        state
            .idle
            .retain(|(link, since)| !link.is_closed() && now - *since < LONGEST);
        state.is_looked_after = !state.idle.is_empty();
        state.is_looked_after
    }

    /// Closes them.
    pub(crate) fn clear(&self) {
        self.state().idle.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
