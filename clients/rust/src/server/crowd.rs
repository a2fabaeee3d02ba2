//! Calls of a crowd: callers that a POLL has woken call at once, and what they call goes along with the next POLL. So a
//! lock passes from waiter to waiter in one exchange with the server.

use crate::background::timeout;
use crate::state::{Fault, Reply};
use redis::Cmd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// How long the POLL waits for the first call of the callers that were woken.
const WINDOW: Duration = Duration::from_millis(1);

/// The calls that go along with the next POLL.
#[derive(Default)]
pub(crate) struct Crowd {
    /// None: the loop collects no calls.
    calls: Mutex<Option<Vec<Call>>>,
    called: Notify,
}

/// A command, and where its reply goes.
pub(crate) struct Call {
    pub(crate) command: Cmd,
    pub(crate) reply: oneshot::Sender<Reply>,
}

impl Crowd {
    fn calls(&self) -> MutexGuard<'_, Option<Vec<Call>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call, if calls are collected. It needs no timer: the exchange has one.
    pub(super) fn join(&self, command: &Cmd) -> Option<oneshot::Receiver<Reply>> {
        let (reply, receiver) = oneshot::channel();
        let command = command.clone();
        self.calls().as_mut()?.push(Call { command, reply });
        self.called.notify_one();
        Some(receiver)
    }

    /// Begins to collect calls.
    pub(crate) fn open(&self) {
        self.calls().get_or_insert_default();
    }

    /// Takes the calls so far, and collects no more. `waits`: callers were woken, so that one is about to come.
    pub(crate) async fn take(&self, waits: bool) -> Vec<Call> {
        let is_empty = || self.calls().as_ref().is_some_and(Vec::is_empty);
        if waits {
            let first = async {
                while is_empty() {
                    self.called.notified().await;
                }
            };
            let _ = timeout(WINDOW, first).await;
        }
        self.calls().take().unwrap_or_default()
    }

    /// Collects no more: the calls were not sent.
    pub(crate) fn close(&self) {
        for call in self.calls().take().unwrap_or_default() {
            let fault = Fault::no_reply("the connection was closed", false);
            let _ = call.reply.send(Err(fault)); // the caller may have gone
        }
    }
}
