//! Connections to servers that may hang or be gone.

use redis::{Connection, RedisConnectionInfo, RedisResult};
use std::time::{Duration, Instant};

/// How long a server that hangs is waited for.
const PATIENCE: Duration = Duration::from_secs(45);

/// A connection to a local port whose replies are not waited for without end.
pub(crate) fn connect(port: u16) -> RedisResult<Connection> {
    let settings = RedisConnectionInfo::default().set_skip_set_lib_name();
    let address = redis::IntoConnectionInfo::into_connection_info(("127.0.0.1", port))?;
    let client = redis::Client::open(address.set_redis_settings(settings))?;
    let connection = client.get_connection_with_timeout(Duration::from_secs(1))?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    Ok(connection)
}

/// Tries until it succeeds. Panics when that has taken too long.
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
