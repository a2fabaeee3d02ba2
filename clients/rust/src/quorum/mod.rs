//! Locks kept by several independent servers that decide together: held is what more than half of them
//! have granted with one token. The protocol and why its tokens rise: `docs/quorum.md`.

mod attempt;
mod latest;
mod member;
mod part;
mod renewal;
mod round;
mod turns;

use crate::Error;
use crate::backend::{Answer, Backend, Obtained};
use crate::background::Background;
use crate::held::Held;
use crate::observer::Reports;
use crate::owner::Names;
use crate::registry::Turn;
use crate::request::{Change, Grant, Granted, Mode, Request};
use crate::server::commands::Call;
use crate::server::{Common, Keeper, Node, Own, Times};
use latest::Latest;
use member::Member;
use redis::{ConnectionInfo, RedisError, Value};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// The backend for several servers.
pub(crate) struct Quorum {
    /// In the order in which they were given.
    members: Vec<Arc<Member>>,
    background: Background,
    latest: Latest,
    names: Names,
    times: Times,
    to_renew: mpsc::UnboundedSender<Arc<Held>>,
}

impl Quorum {
    pub(crate) fn new(
        servers: Vec<ConnectionInfo>,
        names: Names,
        times: Times,
        background: &Background,
        reports: &Reports,
    ) -> Result<Self, Error> {
        if servers.len() < 3 || servers.len().is_multiple_of(2) {
            return Err(Error::misuse(
                "a quorum has three servers, or a larger odd number of them",
            ));
        }
        let addresses: HashSet<_> = servers.iter().map(|it| it.addr().to_string()).collect();
        if addresses.len() < servers.len() {
            return Err(Error::misuse("a server has only one voice in a quorum"));
        }
        // Nothing is kept there: the majority is renewed.
        let (orphans, _) = mpsc::unbounded_channel();
        let common = Common {
            reply_time: times.reply,
            background: background.clone(),
            reports: Reports::default(), // the members tell of themselves
            orphans,
        };
        let member = |server| -> Result<_, RedisError> {
            let node = Node::new(server, &common)?;
            Ok(Arc::new(Member::new(node, times, &common, reports)))
        };
        let members = servers.into_iter().map(member).collect::<Result<_, _>>();
        let (to_renew, new) = mpsc::unbounded_channel();
        background.start_service(renewal::look_after(new));
        Ok(Self {
            members: members.map_err(|error| Error::Misuse(error.to_string().into()))?,
            background: background.clone(),
            latest: Latest::default(),
            names,
            times,
            to_renew,
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
        (lease / 10).max(SHORTEST).min(self.times.reply / 2)
    }
}

impl Backend for Quorum {
    fn acquire<'a>(
        &'a self,
        request: &'a Request,
        _turn: Option<Turn>,
    ) -> Answer<'a, Option<Obtained>> {
        Box::pin(async move {
            // An earlier attempt of the same owner may have left grants behind, on servers that were
            // not heard of; a majority made of old and new ones would be none.
            if request.whose.identity().is_some() {
                return Err(Error::misuse(
                    "on several servers each acquire has an owner of its own",
                ));
            }
            if request.mode != Mode::Exclusive || request.replicas > 0 {
                return Err(Error::misuse(
                    "on several servers a lock is neither shared nor acknowledged by replicas",
                ));
            }
            Ok(self.obtain(request).await?.map(unkept))
        })
    }

    /// The servers count one hold; how many guards share it is known here, and nowhere else. Whether it
    /// is still held, the guard tells as well as it could after asking.
    fn enter<'a>(
        &'a self,
        _grant: &'a Grant,
        _holds: u32,
        _mode: Mode,
        _until: Instant,
    ) -> Answer<'a, Instant> {
        // It lengthens nothing.
        Box::pin(std::future::ready(Ok(Instant::now())))
    }

    fn renew<'a>(
        &'a self,
        grant: &'a Grant,
        _own: Option<Own<'a>>,
        change: Change,
        until: Instant,
    ) -> Answer<'a, Obtained> {
        Box::pin(async move {
            if change.shares {
                return Err(Error::misuse("on several servers a lock is not shared"));
            }
            let renewed = self.renew_on_all(grant, change.lease, until).await;
            Ok(unkept(renewed?))
        })
    }

    fn release<'a>(
        &'a self,
        grant: &'a Grant,
        _own: Option<Own<'a>>,
        holds: u32,
        until: Instant,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            if holds == 0 {
                self.release_on_all(grant, until).await?;
            }
            Ok(())
        })
    }

    /// By a renewal, or by the token where nobody renews it.
    fn check<'a>(&'a self, held: &'a Arc<Held>, until: Instant) -> Answer<'a, ()> {
        Box::pin(async move {
            // Beside a call that sets another lease, some servers would be left with this one.
            let _calls = held.calls_until(until).await?;
            let life = held.life();
            if life.keep.is_none() || held.is_winding_down() {
                return self.look_on_all(held.grant(), life.lease, until).await;
            }
            let renewed = self.renew_on_all(held.grant(), Some(life.lease), until);
            held.stands_until(renewed.await?.known_until);
            Ok(())
        })
    }

    fn look<'a>(&'a self, _key: &'a [u8], _call: Call, _once: bool) -> Answer<'a, Value> {
        let error = Error::misuse("on several servers, look at each of them");
        Box::pin(std::future::ready(Err(error)))
    }

    fn can_share(&self) -> bool {
        false
    }

    fn close(&self) {
        for member in &self.members {
            member.close();
        }
    }

    fn look_after(&self, held: &Arc<Held>, _keeper: Option<Arc<Keeper>>) {
        // Nobody listens only when the runtime has ended, and then nothing runs any more.
        let _ = self.to_renew.send(Arc::clone(held));
    }
}

/// Renewed by this process, and kept by no server.
fn unkept(granted: Granted) -> Obtained {
    Obtained {
        granted,
        keeper: None,
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
