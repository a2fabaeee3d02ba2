//! One of the servers: whether it answers, and what it has yet to be told.

use crate::Error;
use crate::observer::{Reach, Reports};
use crate::server::commands::{Call, release_all};
use crate::server::{Answered, CallError, Common, Direct, Link, Node, Route, Times};
use futures_util::future::join_all;
use redis::Value;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// How many releases are kept for a server that is down. Those that it is not told of end with their
/// leases.
const MOST_OWED: usize = 10_000;

/// A server. Where it does not answer, it is left alone but for a task that looks for it.
pub(crate) struct Member {
    node: Arc<Node>,
    common: Common,
    times: Times,
    state: Mutex<State>,
    reach: Reach,
}

#[derive(Default)]
struct State {
    /// Why it is left alone, if it is.
    down: Option<String>,
    /// What is sent when it is back. A release of an owner that is never used again is right at any
    /// time.
    owed: VecDeque<Call>,
}

impl Member {
    pub(crate) fn new(node: Node, times: Times, common: &Common, reports: &Reports) -> Self {
        Self {
            reach: Reach::new(reports, node.address()),
            node: Arc::new(node),
            common: common.clone(),
            times,
            state: Mutex::default(),
        }
    }

    pub(crate) fn address(&self) -> &str {
        self.node.address()
    }

    /// Why it is left alone, if it is.
    pub(crate) fn down(&self) -> Option<String> {
        self.state().down.clone()
    }

    pub(crate) fn close(&self) {
        self.node.close();
    }

    /// The way to wait in this server's line.
    pub(crate) fn direct(&self) -> Direct {
        let route = Route::Single(Arc::clone(&self.node));
        Direct::at(Arc::new(route), &self.common, self.times)
    }

    /// Sends a call, and once more at once when the connection fails: it may have been an old one, or
    /// the answer may be lost. `link` is the connection that it was sent on last.
    pub(crate) async fn call(
        self: &Arc<Self>,
        command: &Call,
        limit: Duration,
        link: &mut Option<Link>,
    ) -> Answered {
        let sent = Instant::now();
        let mut repeated = false;
        let outcome = match self.down() {
            Some(_) => Err(CallError::silence()),
            None => timeout(limit, self.send_twice(command, link, &mut repeated))
                .await
                .unwrap_or_else(|_| Err(CallError::silence())),
        };
        if let Err(error) = &outcome {
            self.learn(error, link.as_ref());
        }
        Answered {
            outcome: outcome.map_err(Error::from),
            sent,
            repeated,
            keeper: None,
        }
    }

    /// Sees to it that the owner holds nothing: at once, or when the server is back. On the connection
    /// on which it has asked for the lock that is also true of what the server has not yet read.
    pub(crate) async fn release(
        self: &Arc<Self>,
        key: &[u8],
        owner: &str,
        limit: Duration,
        link: Option<Link>,
    ) -> Answered {
        let command = release_all(key, owner);
        let Some(link) = link else {
            let answered = self.call(&command, limit, &mut None).await;
            if matches!(answered.outcome, Err(Error::Unavailable(_))) {
                self.owe(command);
            }
            return answered;
        };
        let sent = Instant::now();
        let answer = timeout(limit, link.send(&command)).await;
        let outcome = answer.unwrap_or_else(|_| Err(CallError::silence()));
        if let Err(error) = &outcome
            && !matches!(error, CallError::Refused(_))
        {
            link.close();
            self.owe(command);
        }
        Answered {
            outcome: outcome.map_err(Error::from),
            sent,
            repeated: false,
            keeper: None,
        }
    }

    /// Takes note of a failure.
    pub(crate) fn learn(self: &Arc<Self>, error: &CallError, link: Option<&Link>) {
        let reason = match error {
            CallError::Broken(error)
            | CallError::Passing(error)
            | CallError::Moved(_, error)
            | CallError::Ask(_, error) => error.to_string(),
            CallError::Refused(_) => return,
        };
        if let Some(link) = link {
            link.close();
        }
        self.leave_alone(&mut self.state(), &reason);
    }

    async fn send_twice(
        &self,
        command: &Call,
        link: &mut Option<Link>,
        repeated: &mut bool,
    ) -> Result<Value, CallError> {
        match self.send(command, link).await {
            Err(error @ CallError::Broken(_)) => {
                *repeated = error.may_have_been_done();
                if let Some(broken) = link.take() {
                    broken.close();
                }
                self.send(command, link).await
            }
            answer => answer,
        }
    }

    async fn send(&self, command: &Call, link: &mut Option<Link>) -> Result<Value, CallError> {
        let link = link.insert(self.node.keeper().await?.link.clone());
        link.send(command).await
    }

    fn owe(self: &Arc<Self>, command: Call) {
        let mut state = self.state();
        if state.owed.len() == MOST_OWED {
            state.owed.pop_front();
        }
        state.owed.push_back(command);
        self.leave_alone(&mut state, "it did not answer");
    }

    fn leave_alone(self: &Arc<Self>, state: &mut State, reason: &str) {
        if state.down.is_none() {
            tracing::debug!(server = self.address(), reason, "a server does not answer");
            state.down = Some(reason.to_owned());
            if !self.node.is_gone() {
                self.reach.down(reason);
            }
            let found = look_for(Arc::downgrade(self));
            self.common.background.start_service(found);
        }
    }

    /// Whether it is back, and has been told what it had missed.
    async fn is_back(&self) -> bool {
        loop {
            if self.node.call(&Call::words(&["PING"])).await.is_err() {
                return false;
            }
            let owed = {
                let mut state = self.state();
                if state.owed.is_empty() {
                    state.down = None;
                    self.reach.up();
                    tracing::debug!(server = self.address(), "a server is back");
                    return true;
                }
                std::mem::take(&mut state.owed)
            };
            let told = owed.iter().map(|release| self.node.call(release));
            let missed = join_all(told).await.into_iter().zip(owed);
            let missed = missed.filter(|(answer, _)| match answer {
                Ok(_) | Err(CallError::Refused(_)) => false,
                Err(_) => true,
            });
            let missed: Vec<_> = missed.map(|(_, release)| release).collect();
            self.state().owed.extend(missed);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connects to a server until it answers, or nobody needs it any more.
async fn look_for(member: Weak<Member>) {
    const FIRST: Duration = Duration::from_millis(10);
    const LONGEST: Duration = Duration::from_secs(1);
    let mut pause = FIRST;
    loop {
        match member.upgrade() {
            Some(member) if member.is_back().await => return,
            Some(_) => {}
            None => return,
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST);
    }
}
