//! Five independent servers, and what a quorum of them is asked in tests.

use crate::support::{ms, settings};
use redis_lock_client::{Builder, Guard, Lock, Locks};
use testbed::{Expect, Proxy, Server, cmd};
use tokio::time::sleep;

/// Five servers that do not know of each other.
pub(crate) struct Five {
    pub(crate) servers: [Server; 5],
}

impl Five {
    pub(crate) fn start() -> Self {
        Self {
            servers: [(); 5].map(|()| Server::start()),
        }
    }

    /// Sends the first ones a signal.
    pub(crate) fn signal(&self, count: usize, name: &str) {
        for server in &self.servers[..count] {
            server.signal(name);
        }
    }

    pub(crate) fn locks(&self) -> Locks {
        self.locks_with(settings())
    }

    pub(crate) fn locks_with(&self, settings: Builder) -> Locks {
        locks_at(self.ports(), settings)
    }

    pub(crate) fn ports(&self) -> [u16; 5] {
        self.servers.each_ref().map(Server::port)
    }

    /// The owner and the token at each server that runs and has granted the lock.
    pub(crate) fn grants(&self, key: &str) -> Vec<(String, u64)> {
        let up = self.servers.iter().filter(|server| server.is_up());
        up.filter_map(|server| {
            let answer = cmd!(server.connection(), "LOCK.INFO", key).value();
            (answer != testbed::redis::Value::Nil).then(|| {
                let info = answer.lock_info();
                let owner = String::from_utf8(info.owner).expect("a name");
                (owner, u64::try_from(info.token).expect("a token"))
            })
        })
        .collect()
    }

    /// A lock that all servers have granted which run. An attempt goes on without those that come late, on
    /// a machine that is busy.
    pub(crate) async fn hold(&self, lock: &Lock) -> Guard {
        let up = self.servers.iter().filter(|server| server.is_up()).count();
        for _ in 0..20 {
            let guard = lock.acquire().await.expect("a lock");
            let wanted = vec![(guard.owner().to_owned(), guard.token()); up];
            let key = String::from_utf8_lossy(guard.key()).into_owned();
            for _ in 0..20 {
                if self.grants(&key) == wanted {
                    return guard;
                }
                sleep(ms(5)).await;
            }
            guard.release().await.expect("a release");
        }
        panic!("not all servers have it");
    }

    /// Whether a majority has granted the lock to this guard, and no other server to anybody.
    pub(crate) fn are_held_by(&self, guard: &Guard) -> bool {
        let grants = self.grants(&String::from_utf8_lossy(guard.key()));
        let is_its = |grant: &(String, u64)| grant.0 == guard.owner() && grant.1 == guard.token();
        grants.len() >= 3 && grants.iter().all(is_its)
    }

    /// Whether no server that runs knows of the lock.
    pub(crate) fn are_free(&self, key: &str) -> bool {
        self.grants(key).is_empty()
    }
}

/// Five servers, each behind a proxy, and locks on the proxies.
pub(crate) struct Behind {
    pub(crate) five: Five,
    pub(crate) proxies: [Proxy; 5],
    pub(crate) locks: Locks,
}

impl Behind {
    pub(crate) fn start(settings: Builder) -> Self {
        let five = Five::start();
        let proxies = five.ports().map(Proxy::start);
        let locks = locks_at(proxies.each_ref().map(Proxy::port), settings);
        Self {
            five,
            proxies,
            locks,
        }
    }
}

pub(crate) fn locks_at(ports: [u16; 5], settings: Builder) -> Locks {
    let servers = ports.map(|port| ("127.0.0.1", port));
    settings.quorum(servers).expect("a locks")
}
