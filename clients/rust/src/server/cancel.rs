//! An acquire that nobody wants to hear of any more, or whose outcome is not known.

use super::calls::call;
use super::commands::{Call, release_all};
use super::direct::Times;
use super::{Direct, Link, Node, Route};
use crate::background::Background;
use crate::registry::Turn;
use crate::request::{Over, Request};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often the server is told again, while the call that waits has not been answered.
const AGAIN: Duration = Duration::from_millis(50);

/// Cancels an acquire when it is dropped unsettled, in the background.
pub(crate) struct Pending {
    route: Arc<Route>,
    background: Background,
    times: Times,
    key: Vec<u8>,
    owner: String,
    /// The connection on which it waits.
    pub(crate) waits_on: Option<(Arc<Node>, Link)>,
    /// Something has been sent.
    pub(crate) is_sent: bool,
    /// The caller knows what came of it, or sees to it.
    pub(crate) settled: bool,
    /// Nobody else acquires for the same owner before this is over.
    turn: Option<Turn>,
    over: Option<Over>,
}

impl Pending {
    pub(crate) fn new(direct: &Direct, request: &Request, turn: Option<Turn>) -> Self {
        Self {
            route: Arc::clone(&direct.route),
            background: direct.background.clone(),
            times: direct.times,
            key: request.key.clone(),
            owner: request.owner.clone(),
            waits_on: None,
            is_sent: false,
            settled: false,
            turn,
            over: request.over.clone(),
        }
    }

    /// Comes after what has been sent so far.
    async fn cancel(&mut self) {
        tracing::debug!(owner = self.owner, "an acquire is cancelled");
        let until = Instant::now() + self.times.release;
        let command = release_all(&self.key, &self.owner);
        let release = async || {
            let answered = call(&self.route, &self.key, &command, until).await;
            if let Err(error) = answered.outcome {
                tracing::debug!(owner = self.owner, %error, "calling off an acquire");
            }
        };
        let Some((node, link)) = self.waits_on.take() else {
            release().await;
            return;
        };
        // The release makes the server answer the call that waits. What is sent behind that call is
        // answered after it: then all is over, and a grant of the last moment can be given back.
        let patience = Instant::now() + self.times.reply;
        let ping = Call::words(&["PING"]);
        let behind = link.send(&ping);
        tokio::pin!(behind);
        while Instant::now() < patience {
            release().await;
            tokio::select! {
                _ = &mut behind => {
                    if !link.is_closed() {
                        node.give_back(link.clone());
                    }
                    release().await;
                    return;
                }
                // The release may have come before the call that it was to end.
                () = sleep(AGAIN) => {}
            }
        }
        link.close();
        release().await;
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.settled || !self.is_sent {
            return;
        }
        let mut rest = Self {
            route: Arc::clone(&self.route),
            background: self.background.clone(),
            times: self.times,
            key: std::mem::take(&mut self.key),
            owner: std::mem::take(&mut self.owner),
            waits_on: self.waits_on.take(),
            is_sent: true,
            settled: true,
            turn: self.turn.take(),
            over: self.over.take(),
        };
        self.background.start(async move { rest.cancel().await });
    }
}
