//! The ways of taking a lock, as one.

use super::go::{self, Go};
use super::without_raise::{self, WithoutRaise};
use crate::clock::millis;
use crate::quorum::event::{Orders, Way};
use history::{Outcome, Refusal};
use redis_lock_client::quorum::QuorumGuard;
use redis_lock_client::{ErrorKind, Locks as Client, Quorum};
use std::sync::Arc;
use std::time::Duration;

/// How long both steps of an acquire, grant and raise, may take. The client gives each a part of the lease as well.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(200);

/// Where locks come from.
#[derive(Clone)]
pub(super) enum Locks {
    Quorum(Quorum),
    Go(Arc<Go>),
    WithoutRaise(WithoutRaise),
}

/// A lock that is held.
pub(super) enum Hold {
    Quorum(QuorumGuard),
    Go(go::Hold),
    WithoutRaise(without_raise::Hold),
}

impl Locks {
    pub(super) fn open(orders: &Orders) -> Result<Self, String> {
        let ports = orders.ports.iter();
        let urls: Vec<_> = ports
            .map(|port| format!("redis://127.0.0.1:{port}/"))
            .collect();
        match orders.way {
            Way::Quorum => Client::builder()
                .service(format!("contender-{}", orders.number))
                .lease(Duration::from_millis(orders.leases.0))
                .silence(Duration::from_secs(1))
                .reply_time(RESPONSE_TIMEOUT)
                .quorum(urls)
                .map(Self::Quorum)
                .map_err(|e| e.to_string()),
            Way::Go => Go::open(orders).map(Self::Go),
            Way::WithoutRaise => WithoutRaise::open(&urls).map(Self::WithoutRaise),
        }
    }

    /// Takes a lock; `renews` says whether it is renewed until it is given back. None where it is not
    /// free in time.
    pub(super) async fn acquire(
        &self,
        key: &str,
        lease: Duration,
        wait: Duration,
        renews: bool,
    ) -> Result<Option<Hold>, String> {
        match self {
            Self::Quorum(client) => {
                let lock = client.lock(key).wait(wait);
                let lock = if renews { lock } else { lock.fixed(lease) };
                match lock.acquire().await {
                    Ok(guard) => Ok(Some(Hold::Quorum(guard))),
                    Err(error) => match error.kind() {
                        ErrorKind::Busy => Ok(None),
                        ErrorKind::Unavailable => Err("no majority".to_owned()),
                        _ => Err(error.to_string()),
                    },
                }
            }
            Self::Go(go) => {
                let fixed = (!renews).then(|| millis(lease));
                let hold = go.acquire(key, fixed, millis(wait)).await?;
                Ok(hold.map(Hold::Go))
            }
            Self::WithoutRaise(locks) => {
                let hold = locks.acquire(key, lease, wait).await;
                Ok(hold.map(Hold::WithoutRaise))
            }
        }
    }

    pub(super) async fn close(&self) {
        match self {
            Self::Quorum(client) => {
                let _ = client.close().await; // what is left ends with its lease
            }
            Self::Go(go) => go.close().await,
            Self::WithoutRaise(_) => {}
        }
    }
}

impl Hold {
    pub(super) fn token(&self) -> u64 {
        match self {
            Self::Quorum(guard) => guard.token(),
            Self::Go(hold) => hold.token,
            Self::WithoutRaise(hold) => hold.token,
        }
    }

    pub(super) fn owner(&self) -> String {
        match self {
            Self::Quorum(guard) => format!("rust:{}", guard.token()),
            Self::Go(hold) => format!("go:{}", hold.token),
            Self::WithoutRaise(hold) => hold.owner.clone(),
        }
    }

    /// How long it may still be trusted; none when it is lost.
    pub(super) async fn valid_for(&self) -> Option<Duration> {
        let left = match self {
            Self::Quorum(guard) => guard.remaining(),
            Self::Go(hold) => hold.valid_for().await,
            Self::WithoutRaise(hold) => hold.valid_for(),
        };
        Some(left).filter(|left| !left.is_zero())
    }

    pub(super) async fn release(self) -> Outcome {
        match self {
            Self::Quorum(guard) => match guard.release().await {
                Ok(()) => Outcome::Left(0),
                Err(error) if error.kind() == ErrorKind::Lost => Outcome::Refused(Refusal::NotHeld),
                Err(_) => Outcome::Lost,
            },
            Self::Go(hold) => hold.release().await,
            Self::WithoutRaise(hold) => hold.release().await,
        }
    }
}
