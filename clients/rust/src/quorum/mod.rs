//! Locks kept by several independent servers that decide together: held is what more than half of them
//! have granted with one token. The protocol and why its tokens rise: `docs/quorum.md`.

mod attempt;
mod member;
mod part;
mod round;
mod turns;

use crate::Error;
use crate::backend::{Answer, Backend, Grant, Granted, Request};
use crate::background::Background;
use crate::owner::Names;
use crate::server::Node;
use member::Member;
use redis::ConnectionInfo;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The backend for several servers.
pub(crate) struct Quorum {
    /// In the order in which they were given.
    members: Vec<Arc<Member>>,
    background: Background,
    names: Names,
    response_timeout: Duration,
}

impl Quorum {
    pub(crate) fn new(
        servers: Vec<ConnectionInfo>,
        names: Names,
        response_timeout: Duration,
        background: &Background,
    ) -> Result<Self, Error> {
        if servers.len() < 3 || servers.len().is_multiple_of(2) {
            return Err(Error::Invalid(
                "a quorum has three servers, or a larger odd number of them",
            ));
        }
        let addresses: HashSet<_> = servers.iter().map(|it| it.addr().to_string()).collect();
        if addresses.len() < servers.len() {
            return Err(Error::Invalid("a server has only one voice in a quorum"));
        }
        let member = |server| -> Result<_, Error> {
            let node = Node::new(server, response_timeout).map_err(Error::Unreachable)?;
            Ok(Arc::new(Member::new(node, response_timeout, background)))
        };
        Ok(Self {
            members: servers.into_iter().map(member).collect::<Result<_, _>>()?,
            background: background.clone(),
            names,
            response_timeout,
        })
    }

    /// How many servers are more than half of them.
    fn majority(&self) -> usize {
        self.members.len() / 2 + 1
    }

    /// How long a server may take to answer a call about a lock with this lease: far below it, so that
    /// most of the lease is left when a majority has answered, unless it is so short that good servers
    /// would seem to be down. Two rounds stay within the response time-out.
    fn limit(&self, lease: Duration) -> Duration {
        const SHORTEST: Duration = Duration::from_millis(20);
        (lease / 10).max(SHORTEST).min(self.response_timeout / 2)
    }
}

impl Backend for Quorum {
    fn acquire<'a>(&'a self, request: &'a Request) -> Answer<'a, Option<Granted>> {
        Box::pin(async move {
            // An earlier attempt of the same owner may have left grants behind, on servers that were
            // not heard of; a majority made of old and new ones would be none.
            if request.is_owner_chosen {
                return Err(Error::Invalid(
                    "on several servers each acquire has an owner of its own",
                ));
            }
            self.obtain(request).await
        })
    }

    /// The servers count one hold; how many guards share it is known here, and nowhere else. Whether it
    /// is still held, the guard tells as well as it could after asking.
    fn enter<'a>(&'a self, grant: &'a Grant, holds: u32, _until: Instant) -> Answer<'a, Granted> {
        let granted = Granted {
            grant: grant.clone(),
            holds,
            // It lengthens nothing.
            trusted_until: Instant::now(),
        };
        Box::pin(std::future::ready(Ok(granted)))
    }

    fn renew<'a>(
        &'a self,
        grant: &'a Grant,
        lease: Duration,
        until: Instant,
    ) -> Answer<'a, Granted> {
        Box::pin(self.renew_on_all(grant, lease, until))
    }

    fn release<'a>(&'a self, grant: &'a Grant, holds: u32, until: Instant) -> Answer<'a, ()> {
        Box::pin(async move {
            if holds == 0 {
                self.release_on_all(grant, until).await?;
            }
            Ok(())
        })
    }
}

/// Until when a lease may be trusted that began anew at this time or a little later, on a majority: the
/// servers' clocks may run a little faster than this one. None when that is over.
fn trusted_until(start: Instant, lease: Duration) -> Option<Instant> {
    const LEAST_DRIFT: Duration = Duration::from_millis(2);
    let drift = lease / 100 + LEAST_DRIFT;
    let until = start + lease.checked_sub(drift)?;
    (Instant::now() < until).then_some(until)
}

#[cfg(test)]
mod tests {
    use super::trusted_until;
    use std::time::Duration;
    use tokio::time::Instant;

    #[test]
    fn a_lease_is_trusted_for_a_little_less_than_it_lasts() {
        let start = Instant::now();
        let until = trusted_until(start, Duration::from_secs(10));
        assert_eq!(until, Some(start + Duration::from_millis(9898)));
    }

    #[test]
    fn a_lease_that_has_passed_is_not_trusted() {
        let start = Instant::now() - Duration::from_millis(100);
        assert_eq!(trusted_until(start, Duration::from_millis(100)), None);
        assert_eq!(trusted_until(start, Duration::from_millis(1)), None);
    }
}
