//! The data that the locks protect: in the same server.

use crate::Outcome;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, FromRedisValue, RedisResult, ToRedisArgs, Value};

/// A connection for the data, beside the client's own for the locks.
#[derive(Clone)]
pub(crate) struct Data(MultiplexedConnection);

impl Data {
    pub(crate) async fn connect(port: u16) -> Outcome<Self> {
        let client = redis::Client::open(("127.0.0.1", port))?;
        // Nobody knows how long a call waits in line.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        Ok(Self(connection.await?))
    }

    /// Any command.
    pub(crate) async fn run(&mut self, command: &Cmd) -> RedisResult<Value> {
        command.query_async(&mut self.0).await
    }

    pub(crate) async fn get<T: FromRedisValue>(&mut self, key: &str) -> Outcome<T> {
        Ok(redis::cmd("GET").arg(key).query_async(&mut self.0).await?)
    }

    pub(crate) async fn exists(&mut self, key: &str) -> Outcome<bool> {
        Ok(redis::cmd("EXISTS")
            .arg(key)
            .query_async(&mut self.0)
            .await?)
    }

    /// Writes by a script that begins with `LOCK.FENCE` on the first key, with the token as its first
    /// argument. Whether it wrote: not when the token was stale.
    pub(crate) async fn write_fenced<A: ToRedisArgs>(
        &mut self,
        script: &str,
        keys: &[&str],
        token: u64,
        arguments: A,
    ) -> Outcome<bool> {
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(keys.len()).arg(keys);
        command.arg(token).arg(arguments);
        match command.exec_async(&mut self.0).await {
            Ok(()) => Ok(true),
            Err(error) if error.code() == Some("FENCED") => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
