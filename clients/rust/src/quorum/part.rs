//! What one server has to do with one attempt to take a lock: a task that ends when the server holds
//! the lock for good, or has been told to free it. It goes on when the attempt is dropped.

use super::latest::Calls;
use super::member::Member;
use crate::request::{Grant, Request};
use crate::server::commands::{Call, acquire_in_line, granted, raise};
use crate::server::{Answered, Link};
use crate::{Error, Loss};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio_util::task::task_tracker::TaskTrackerToken;

/// What the attempt wants of the servers. When nobody can give orders any more and the last one is not
/// `Keep`, the attempt has been given up.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// Ask for the lock.
    Take,
    /// Lift the grant to this token.
    Raise(u64),
    /// The lock is held with this token: what stands there, or can be lifted to it, stays.
    Keep(u64),
}

/// What a server has said.
#[derive(Debug)]
pub(super) enum Report {
    /// It has granted the lock, with this token.
    Granted(u64),
    /// Another owner has it there.
    Busy,
    /// The grant has been lifted to this token.
    Raised(u64),
    /// That token is too far ahead of the server's time.
    Ahead(u64),
    /// The grant is gone again.
    Gone(Loss),
    /// It refused, or gave no answer.
    Failed(Error),
}

/// One server's part.
pub(super) struct Part {
    pub(super) place: usize,
    pub(super) member: Arc<Member>,
    pub(super) request: Arc<Request>,
    /// How long the server may take for an answer.
    pub(super) limit: Duration,
    /// It is one of these calls, which end when the lock is renewed or released.
    pub(super) calls: Arc<Calls>,
    pub(super) under_way: Option<TaskTrackerToken>,
    /// The token of the grant.
    pub(super) granted: Option<u64>,
    pub(super) orders: watch::Receiver<Order>,
    pub(super) reports: mpsc::UnboundedSender<(usize, Report)>,
}

impl Part {
    pub(super) async fn play(mut self) {
        let calls = Arc::clone(&self.calls);
        let mut link = None;
        let is_well = tokio::select! {
            biased;
            () = calls.over.cancelled() => false,
            is_well = self.take_and_raise(&mut link) => is_well,
        };
        if is_well {
            return;
        }
        let may_be_counted = self.may_be_counted();
        if !may_be_counted {
            self.under_way = None;
        }
        let Request { key, owner, .. } = &*self.request;
        let answered = tokio::select! {
            biased;
            () = calls.over.cancelled(), if may_be_counted => return,
            answered = self.member.release(key, owner, self.limit, link) => answered,
        };
        if let Err(error) = answered.outcome {
            tracing::debug!(server = self.member.address(), owner, %error, "not released");
        }
    }

    /// Whether the server may have the token of the lock, so that a renewal may count it.
    fn may_be_counted(&self) -> bool {
        let (Order::Raise(token) | Order::Keep(token)) = *self.orders.borrow() else {
            return false;
        };
        self.granted.is_some_and(|granted| granted <= token)
    }

    /// Whether all is well at this server: it keeps the lock for the holder, or has nothing to release.
    async fn take_and_raise(&mut self, link: &mut Option<Link>) -> bool {
        let command = acquire_in_line(&self.request, None);
        let Some(answered) = self.call(&command, link).await else {
            return false;
        };
        let sent = answered.sent;
        let answer = answered.outcome;
        let answer = answer.and_then(|value| granted(&self.request.key, sent, &value));
        let grant = match answer {
            Ok(Some(granted)) => granted.grant,
            Ok(None) => {
                self.report(Report::Busy);
                return true;
            }
            Err(error) => {
                self.report(Report::Failed(error));
                return false;
            }
        };
        self.granted = Some(grant.token);
        self.report(Report::Granted(grant.token));
        self.follow(grant, link).await
    }

    /// Does as told, until the lock is held or given up. Once lifted, a grant is lifted no more: when the
    /// attempt goes on with another token, it goes on without this server.
    async fn follow(&mut self, grant: Grant, link: &mut Option<Link>) -> bool {
        let mut lifted_to = None;
        loop {
            let order = *self.orders.borrow_and_update();
            if let Order::Raise(token) | Order::Keep(token) = order
                && lifted_to.is_none()
                && token >= grant.token
            {
                let command = raise(&grant, self.request.life.lease, token);
                let Some(answered) = self.call(&command, link).await else {
                    return false;
                };
                let report = match answered.outcome {
                    Ok(_) => {
                        lifted_to = Some(token);
                        Report::Raised(token)
                    }
                    Err(Error::Refused { code, .. }) if code == "AHEAD" => Report::Ahead(token),
                    Err(Error::Lost(loss)) => Report::Gone(loss),
                    Err(error) => Report::Failed(error),
                };
                let goes_on = matches!(report, Report::Raised(_) | Report::Ahead(_));
                self.report(report);
                if !goes_on {
                    return false;
                }
            }
            if let Order::Keep(token) = order {
                return lifted_to == Some(token);
            }
            if self.orders.changed().await.is_err() {
                return false;
            }
        }
    }

    /// None when the attempt is given up in the meantime.
    async fn call(&self, command: &Call, link: &mut Option<Link>) -> Option<Answered> {
        tokio::select! {
            answered = self.member.call(command, self.limit, link) => Some(answered),
            () = self.given_up() => None,
        }
    }

    async fn given_up(&self) {
        let mut orders = self.orders.clone();
        while orders.changed().await.is_ok() {}
        let last = *orders.borrow();
        if let Order::Keep(_) = last {
            std::future::pending::<()>().await;
        }
    }

    fn report(&self, report: Report) {
        // Nobody listens any more when the lock is held, or given up: both are told by orders.
        let _ = self.reports.send((self.place, report));
    }
}
