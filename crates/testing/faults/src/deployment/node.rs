//! One server, which may die and come back.

use redis::{Connection, RedisConnectionInfo};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};
use testbed::Server;

/// How long a server that hangs is waited for.
const PATIENCE: Duration = Duration::from_secs(45);

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

/// A connection to a local port whose replies are not waited for without end.
pub(crate) fn connect(port: u16) -> redis::RedisResult<Connection> {
    let settings = RedisConnectionInfo::default().set_skip_set_lib_name();
    let address = redis::IntoConnectionInfo::into_connection_info(("127.0.0.1", port))?;
    let client = redis::Client::open(address.set_redis_settings(settings))?;
    let connection = client.get_connection_with_timeout(Duration::from_secs(1))?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    Ok(connection)
}

/// Tries until it succeeds, or until that has taken too long.
pub(crate) fn insist<T, E: std::fmt::Display>(
    what: &str,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> T {
    let began = Instant::now();
    loop {
        match attempt() {
            Ok(value) => return value,
            Err(e) if began.elapsed() > PATIENCE => panic!("{what}: {e}, for {PATIENCE:?}"),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}
