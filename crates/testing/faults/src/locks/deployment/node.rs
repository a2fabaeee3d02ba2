//! One server, which may die and return.

use crate::connection::connect;
use redis::Connection;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use testbed::Server;

/// Where a server is, and in which of its lives: each time that it is killed another begins.
pub(crate) struct Node {
    port: u16,
    life: AtomicU32,
}

impl Node {
    pub(crate) fn of(server: &Server) -> Self {
        Self {
            port: server.port(),
            life: AtomicU32::new(0),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// How often it has died.
    pub(crate) fn life(&self) -> u32 {
        self.life.load(SeqCst)
    }

    /// Notes that its process is no more.
    pub(crate) fn has_died(&self) {
        self.life.fetch_add(1, SeqCst);
    }

    /// A connection past any proxy.
    pub(crate) fn connect(&self) -> redis::RedisResult<Connection> {
        connect(self.port)
    }
}
