//! Five independent servers, and what a quorum of them is asked in tests.

use crate::support::settings;
use redis_lock_client::{Builder, Client};
use testbed::{Expect, Server, cmd};

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

    pub(crate) fn client(&self) -> Client {
        self.client_with(settings())
    }

    pub(crate) fn client_with(&self, settings: Builder) -> Client {
        client_at(self.ports(), settings)
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

    /// Whether no server that runs knows of the lock.
    pub(crate) fn are_free(&self, key: &str) -> bool {
        self.grants(key).is_empty()
    }
}

pub(crate) fn client_at(ports: [u16; 5], settings: Builder) -> Client {
    let servers = ports.map(|port| ("127.0.0.1", port));
    settings.quorum(servers).expect("a client")
}
