//! The two ways of taking a lock, as one.

use super::without_raise::{self, WithoutRaise};
use crate::quorum::event::{Orders, Way};
use history::{Outcome, Refusal};
use redis_lock_client::{Error, Guard, Locks as Client};
use std::time::Duration;

/// How long both steps of an acquire, grant and raise, may take. The client gives each a part of the lease as well.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(200);

/// Where locks come from.
#[derive(Clone)]
pub(super) enum Locks {
    Quorum(Client),
    WithoutRaise(WithoutRaise),
}

/// A lock that is held.
pub(super) enum Hold {
    Quorum(Guard),
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
                .reply_time(RESPONSE_TIMEOUT)
                .quorum(urls)
                .map(Self::Quorum)
                .map_err(|e| e.to_string()),
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
                let lock = client.lock(key).lease(lease).wait(wait);
                let lock = if renews { lock } else { lock.fixed() };
                match lock.acquire().await {
                    Ok(guard) => Ok(Some(Hold::Quorum(guard))),
                    Err(Error::Busy) => Ok(None),
                    Err(Error::Unavailable(_)) => Err("no majority".to_owned()),
                    Err(error) => Err(error.to_string()),
                }
            }
            Self::WithoutRaise(locks) => {
                let hold = locks.acquire(key, lease, wait).await;
                Ok(hold.map(Hold::WithoutRaise))
            }
        }
    }

    pub(super) async fn close(&self) {
        if let Self::Quorum(client) = self {
            client.close().await;
        }
    }
}

impl Hold {
    pub(super) fn token(&self) -> u64 {
        match self {
            Self::Quorum(guard) => guard.token(),
            Self::WithoutRaise(hold) => hold.token,
        }
    }

    pub(super) fn owner(&self) -> String {
        match self {
            Self::Quorum(guard) => guard.owner().to_owned(),
            Self::WithoutRaise(hold) => hold.owner.clone(),
        }
    }

    /// How long it may still be trusted; none when it is lost.
    pub(super) fn valid_for(&self) -> Option<Duration> {
        let left = match self {
            Self::Quorum(guard) => guard.remaining(),
            Self::WithoutRaise(hold) => hold.valid_for(),
        };
        Some(left).filter(|left| !left.is_zero())
    }

    pub(super) async fn release(self) -> Outcome {
        match self {
            Self::Quorum(guard) => match guard.release().await {
                Ok(()) => Outcome::Left(0),
                Err(Error::Lost(_)) => Outcome::Refused(Refusal::NotHeld),
                Err(_) => Outcome::Lost,
            },
            Self::WithoutRaise(hold) => hold.release().await,
        }
    }
}
