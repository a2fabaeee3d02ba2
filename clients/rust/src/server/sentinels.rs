//! Asks Sentinels for the primary, by the client of redis-rs.

use super::not_sent;
use crate::background::background;
use crate::state::Fault;
use redis::Client;
use redis::sentinel::SentinelClient;
use std::sync::Arc;
use tokio::sync::Mutex;

/// The Sentinels of a primary.
pub(super) struct Sentinels(Arc<Mutex<SentinelClient>>);

impl Sentinels {
    pub(super) fn new(client: SentinelClient) -> Self {
        Self(Arc::new(Mutex::new(client)))
    }

    /// A client of the present primary. The question goes on when its caller has no more time, so that a Sentinel that
    /// hangs is passed over in the end.
    pub(super) async fn client(&self) -> Result<Client, Fault> {
        let sentinels = Arc::clone(&self.0);
        let asked =
            background().spawn(async move { sentinels.lock().await.async_get_client().await });
        let client = asked.await.expect("no panic");
        client.map_err(|error| not_sent(&error))
    }
}
