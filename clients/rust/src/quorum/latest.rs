//! Which calls about a grant are the latest: what is left of earlier ones is not sent behind them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Calls to all servers that begin together. They are known as long as any of them is under way.
pub(super) struct Calls {
    owner: String,
    latest: Latest,
    /// Nothing of them is sent any more, nor sent again.
    pub(super) over: CancellationToken,
    /// What may still be sent.
    pub(super) under_way: TaskTracker,
}

impl Calls {
    /// Makes one of them, as long as it is not over.
    pub(super) fn one<F>(self: &Arc<Self>, call: F) -> impl Future<Output = ()> + use<F>
    where
        F: Future<Output = ()>,
    {
        let calls = Arc::clone(self);
        self.under_way.track_future(async move {
            tokio::select! {
                biased;
                () = calls.over.cancelled() => {}
                () = call => {}
            }
        })
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        let mut latest = self.latest.locked();
        let is_known = latest.get(&self.owner);
        if is_known.is_some_and(|calls| calls.strong_count() == 0) {
            latest.remove(&self.owner);
        }
    }
}

/// The latest calls of each owner.
#[derive(Clone, Default)]
pub(super) struct Latest(Arc<Mutex<HashMap<String, Weak<Calls>>>>);

impl Latest {
    /// Calls of an owner that has no others.
    pub(super) fn first(&self, owner: &str) -> Arc<Calls> {
        let calls = Arc::new(Calls {
            owner: owner.to_owned(),
            latest: self.clone(),
            over: CancellationToken::new(),
            under_way: TaskTracker::new(),
        });
        calls.under_way.close();
        let known = Arc::downgrade(&calls);
        self.locked().insert(owner.to_owned(), known);
        calls
    }

    /// Calls that come behind what has been sent before.
    pub(super) async fn next(&self, owner: &str) -> Arc<Calls> {
        self.stop(owner).await;
        self.first(owner)
    }

    /// What has not been sent by now is not sent.
    pub(super) async fn stop(&self, owner: &str) {
        while let Some(calls) = self.under_way(owner) {
            calls.over.cancel();
            calls.under_way.wait().await;
        }
    }

    fn under_way(&self, owner: &str) -> Option<Arc<Calls>> {
        let calls = self.locked().get(owner).and_then(Weak::upgrade);
        calls.filter(|calls| !calls.under_way.is_empty())
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, Weak<Calls>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
