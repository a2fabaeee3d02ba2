//! Calls of a crowd: the callers that a POLL has woken call at once, and what they call goes along with the next POLL. So
//! a lock passes from waiter to waiter in one exchange with the server.

use crate::background::sleep;
use crate::state::Reply;
use redis::Cmd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// How long the POLL waits for the first call.
const WINDOW: Duration = Duration::from_millis(1);

/// The calls that go along with the next POLL.
#[derive(Default)]
pub(super) struct Crowd {
    /// None: the loop collects no calls.
    calls: Mutex<Option<Vec<Call>>>,
    called: Notify,
}

/// A command, and where its reply goes.
pub(super) struct Call {
    pub(super) command: Cmd,
    pub(super) reply: oneshot::Sender<Reply>,
}

impl Crowd {
    fn calls(&self) -> MutexGuard<'_, Option<Vec<Call>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to collect calls, before the callers are woken.
    pub(super) fn begin(&self) {
        self.calls().get_or_insert_default();
    }

    /// Adds a call, if calls are collected.
    pub(super) fn join(&self, command: &Cmd) -> Option<oneshot::Receiver<Reply>> {
        let (sender, receiver) = oneshot::channel();
        let call = Call {
            command: command.clone(),
            reply: sender,
        };
        self.calls().as_mut()?.push(call);
        self.called.notify_one();
        Some(receiver)
    }

    /// Ends the collection, a moment after the first call.
    pub(super) async fn end(&self) -> Vec<Call> {
        if self.calls().is_none() {
            return Vec::new();
        }
        tokio::select! {
            () = self.called.notified() => tokio::task::yield_now().await,
            () = sleep(WINDOW) => {}
        }
        self.calls().take().unwrap_or_default()
    }
}
