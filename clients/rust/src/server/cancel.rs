//! An acquire that nobody wants to hear of any more, or whose outcome is not known.

use super::calls::call;
use super::commands::release_all;
use super::{Direct, Path, Route};
use crate::backend::Request;
use crate::background::{Background, PATIENCE};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often the server is told again, while the call that waits has not been answered.
const AGAIN: Duration = Duration::from_millis(50);

/// Cancels an acquire when it is dropped unsettled, in the background.
pub(crate) struct Pending {
    route: Arc<Route>,
    background: Background,
    key: Vec<u8>,
    owner: String,
    /// Where it was sent last.
    pub(super) path: Option<Path>,
    /// The caller knows what came of it, or sees to it.
    pub(crate) settled: bool,
}

impl Pending {
    pub(crate) fn new(direct: &Direct, request: &Request) -> Self {
        Self {
            route: Arc::clone(&direct.route),
            background: direct.background.clone(),
            key: request.key.clone(),
            owner: request.owner.clone(),
            path: None,
            settled: false,
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(path) = self.path.take().filter(|_| !self.settled) else {
            return;
        };
        let (key, owner) = (
            std::mem::take(&mut self.key),
            std::mem::take(&mut self.owner),
        );
        let work = cancel(Arc::clone(&self.route), key, owner, path);
        self.background.start(work);
    }
}

/// Sees to it that the owner neither holds nor waits.
///
/// A release on another connection makes the server answer the call that waits. The same release
/// on the connection that waited is read after that call, so it gives back what the call may have
/// been granted in the last moment, and its answer tells that all is over.
async fn cancel(route: Arc<Route>, key: Vec<u8>, owner: String, path: Path) {
    tracing::debug!(owner, "an acquire is cancelled");
    let until = Instant::now() + PATIENCE;
    let command = release_all(&key, &owner);
    let release = async || {
        let answered = call(&route, &key, &command, until, &mut None).await;
        if let Err(error) = answered.outcome {
            tracing::debug!(owner, %error, "calling off an acquire");
        }
    };
    let behind = path.wait(&command);
    tokio::pin!(behind);
    while Instant::now() < until {
        release().await;
        tokio::select! {
            answer = &mut behind => {
                if answer.is_err() {
                    // The connection is gone, and the call with it, unless it was carried out.
                    release().await;
                }
                return;
            }
            // The release may have come before the call that it was to end.
            () = sleep(AGAIN) => {}
        }
    }
}
