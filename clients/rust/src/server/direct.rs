//! Locks kept by one server at a time: a single one, a primary, a node of a cluster.

use super::calls::{Answered, Pauses, call};
use super::cancel::Pending;
use super::commands::{acquire, enter, granted, release, renew};
use super::{CallError, Node, Path, Route};
use crate::Error;
use crate::backend::{Answer, Backend, Grant, Granted, Request, Wait};
use crate::background::Background;
use redis::Cmd;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The backend for one server at a time.
pub(crate) struct Direct {
    pub(crate) route: Arc<Route>,
    pub(crate) background: Background,
    pub(crate) response_timeout: Duration,
}

impl Backend for Direct {
    fn acquire<'a>(&'a self, request: &'a Request) -> Answer<'a, Option<Granted>> {
        Box::pin(async move {
            let mut pending = Pending::new(self, request);
            let outcome = self.obtain(request, &mut pending).await;
            pending.settled = matches!(outcome, Ok(_) | Err(Error::Refused { .. }));
            outcome
        })
    }

    fn enter<'a>(&'a self, grant: &'a Grant, holds: u32, until: Instant) -> Answer<'a, Granted> {
        Box::pin(self.change(grant, enter(grant, holds), until))
    }

    fn renew<'a>(
        &'a self,
        grant: &'a Grant,
        lease: Duration,
        until: Instant,
    ) -> Answer<'a, Granted> {
        Box::pin(self.change(grant, renew(grant, lease), until))
    }

    fn release<'a>(&'a self, grant: &'a Grant, holds: u32, until: Instant) -> Answer<'a, ()> {
        Box::pin(async move {
            let command = release(grant, holds);
            let answered = call(&self.route, &grant.key, &command, until, &mut None).await;
            match answered.outcome {
                Ok(_) => Ok(()),
                // The first call has been carried out.
                Err(Error::Lost(_)) if answered.repeated && holds == 0 => Ok(()),
                Err(error) => Err(error),
            }
        })
    }
}

impl Direct {
    /// A call that is answered with the grant as it stands then.
    async fn change(&self, grant: &Grant, command: Cmd, until: Instant) -> Result<Granted, Error> {
        let answered = call(&self.route, &grant.key, &command, until, &mut None).await;
        let granted = read(&grant.key, answered)?;
        granted.ok_or_else(|| Error::Unexpected("nil".to_owned()))
    }

    /// First without waiting, on the connection that all share: most locks are free. Then in line,
    /// on a connection of its own.
    async fn obtain(
        &self,
        request: &Request,
        pending: &mut Pending,
    ) -> Result<Option<Granted>, Error> {
        let now = Instant::now();
        let until = match request.wait {
            Wait::No => now.checked_add(self.response_timeout),
            Wait::AtMost(wait) => now.checked_add(wait),
            Wait::Forever => None,
        };
        let command = acquire(request, None);
        let path = &mut pending.path;
        let answered = match until {
            Some(until) => call(&self.route, &request.key, &command, until, path).await,
            None => call(&self.route, &request.key, &command, far_away(), path).await,
        };
        let granted = read(&request.key, answered)?;
        if granted.is_some() || request.wait == Wait::No {
            return Ok(granted);
        }
        self.wait_in_line(request, until, pending).await
    }

    async fn wait_in_line(
        &self,
        request: &Request,
        until: Option<Instant>,
        pending: &mut Pending,
    ) -> Result<Option<Granted>, Error> {
        let mut pauses = Pauses::default();
        let mut error = None;
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return error.map_or(Ok(None), |error: CallError| Err(error.into()));
            }
            match self.wait_once(request, left, pending).await {
                Ok(None) => return Ok(None),
                // When the grant was made is not known: the lease that counts begins now.
                Ok(Some(granted)) => {
                    let answered_by = Instant::now() + self.response_timeout;
                    match self.renew(&granted.grant, request.lease, answered_by).await {
                        Ok(granted) => return Ok(Some(granted)),
                        // It ended before we knew of it: back into the line.
                        Err(Error::Lost(loss)) => tracing::debug!(%loss, "a grant came too late"),
                        Err(error) => return Err(error),
                    }
                }
                Err(CallError::Refused(error)) => return Err(error),
                Err(other) => {
                    tracing::debug!(error = ?other, "a wait begins again");
                    error = Some(other);
                    pauses.take().await;
                }
            }
        }
    }

    /// One call that waits for the whole time that is left.
    pub(crate) async fn wait_once(
        &self,
        request: &Request,
        left: Option<Duration>,
        pending: &mut Pending,
    ) -> Result<Option<Granted>, CallError> {
        let command = acquire(request, Some(left.unwrap_or(Duration::ZERO)));
        let path = self.route.own(&request.key).await?;
        pending.path = Some(path.clone());
        let answer = match self.answer(&path, &command, left).await {
            Err(CallError::Ask(address, _)) => {
                let path = self.route.asking(&path.node, &address).await?;
                pending.path = Some(path.clone());
                self.answer(&path, &command, left).await
            }
            answer => answer,
        };
        let value = answer.map_err(|error| self.route.learn(&request.key, &path.node, error))?;
        granted(&request.key, Instant::now(), &value).map_err(CallError::Refused)
    }

    /// The answer to a call that waits. The server says when the time is up; silence is a failure
    /// only after that, or when it does not answer other calls either.
    async fn answer(
        &self,
        path: &Path,
        command: &Cmd,
        left: Option<Duration>,
    ) -> Result<redis::Value, CallError> {
        let limit = async {
            match left {
                Some(left) => sleep(left + self.response_timeout).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            answer = path.wait(command) => answer,
            () = self.watch(&path.node) => Err(CallError::silence()),
            () = limit => Err(CallError::silence()),
        }
    }

    /// Comes back when a wait at this server is in vain.
    async fn watch(&self, node: &Node) {
        loop {
            sleep(self.response_timeout).await;
            if !self.route.is_right(node).await {
                return;
            }
        }
    }
}

fn read(key: &[u8], answered: Answered) -> Result<Option<Granted>, Error> {
    granted(key, answered.sent, &answered.outcome?)
}

/// Later than anybody waits.
fn far_away() -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    Instant::now() + YEAR
}
