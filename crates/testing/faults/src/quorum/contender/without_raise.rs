//! A lock by majority as it is usually made: without the raise that gives all servers one token. Its
//! tokens need not rise, and the check must notice.

use futures_util::future::join_all;
use history::Outcome;
use redis::{Cmd, FromRedisValue, IntoConnectionInfo};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

/// How long a server may take to answer.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(60);

/// The largest difference of two clocks.
const DRIFT: Duration = Duration::from_millis(20);

/// The servers.
#[derive(Clone)]
pub(super) struct WithoutRaise {
    servers: Arc<Vec<redis::Client>>,
}

/// A lock that a majority has granted.
pub(super) struct Hold {
    locks: WithoutRaise,
    key: String,
    pub(super) owner: String,
    pub(super) token: u64,
    deadline: Instant,
}

impl WithoutRaise {
    pub(super) fn open(urls: &[String]) -> Result<Self, String> {
        let client = |url: &String| {
            let info = url.as_str().into_connection_info()?;
            let settings = info.redis_settings().clone().set_skip_set_lib_name();
            redis::Client::open(info.set_redis_settings(settings))
        };
        let servers: Result<_, redis::RedisError> = urls.iter().map(client).collect();
        let servers = Arc::new(servers.map_err(|e| e.to_string())?);
        Ok(Self { servers })
    }

    /// None when there was no majority in time.
    pub(super) async fn acquire(&self, key: &str, lease: Duration, wait: Duration) -> Option<Hold> {
        let end = Instant::now() + wait;
        loop {
            let owner = Uuid::new_v4().to_string();
            let began = Instant::now();
            let mut acquire = redis::cmd("LOCK.ACQUIRE");
            let lease_ms = crate::clock::millis(lease);
            acquire.arg(key).arg(&owner).arg("PX").arg(lease_ms);
            let replies = self.all::<Option<(u64, String, u32, u64)>>(&acquire).await;
            let tokens: Vec<u64> = replies
                .into_iter()
                .flatten()
                .flatten()
                .map(|g| g.0)
                .collect();
            let mut hold = Hold {
                locks: self.clone(),
                key: key.to_owned(),
                owner,
                token: tokens.iter().copied().max().unwrap_or(0),
                deadline: began + lease.saturating_sub(DRIFT),
            };
            if tokens.len() > self.servers.len() / 2 && Instant::now() < hold.deadline {
                return Some(hold);
            }
            hold.deadline = began;
            hold.release().await;
            if Instant::now() > end {
                return None;
            }
            // Different from task to task.
            let pause = Duration::from_millis(5 + u64::from(Uuid::new_v4().as_bytes()[0]) / 8);
            sleep(pause).await;
        }
    }

    /// Asks all servers at once, each on a connection of its own.
    async fn all<T: FromRedisValue>(&self, command: &Cmd) -> Vec<Option<T>> {
        let asks = self.servers.iter().map(|server| async move {
            let ask = async {
                let mut connection = server.get_multiplexed_async_connection().await.ok()?;
                command.query_async::<T>(&mut connection).await.ok()
            };
            timeout(RESPONSE_TIMEOUT, ask).await.ok().flatten()
        });
        join_all(asks).await
    }
}

impl Hold {
    pub(super) fn valid_for(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    pub(super) async fn release(self) -> Outcome {
        let mut release = redis::cmd("LOCK.RELEASE");
        release.arg(&self.key).arg(&self.owner).arg("ALL");
        let released = self.locks.all::<u32>(&release).await;
        let count = released.into_iter().flatten().count();
        if count > self.locks.servers.len() / 2 {
            Outcome::Left(0)
        } else {
            Outcome::Lost
        }
    }
}
