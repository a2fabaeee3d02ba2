//! The server that the Sentinels call the primary.

use super::CallError;
use super::node::{Node, at};
use redis::{ConnectionInfo, ErrorKind, RedisError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A primary that is looked for by its name.
pub(crate) struct Sentinel {
    name: String,
    sentinels: Vec<Node>,
    /// How to connect to the servers; the address in it is not used.
    server: ConnectionInfo,
    response_timeout: Duration,
    primary: Mutex<Option<Arc<Node>>>,
}

impl Sentinel {
    pub(crate) fn new(
        name: String,
        sentinels: Vec<ConnectionInfo>,
        server: ConnectionInfo,
        response_timeout: Duration,
    ) -> Result<Self, RedisError> {
        let sentinels = sentinels
            .into_iter()
            .map(|sentinel| Node::new(sentinel, response_timeout))
            .collect::<Result<Vec<_>, _>>()?;
        if sentinels.is_empty() {
            return Err((ErrorKind::EmptySentinelList, "at least one Sentinel").into());
        }
        Ok(Self {
            name,
            sentinels,
            server,
            response_timeout,
            primary: Mutex::new(None),
        })
    }

    /// The primary as it was when the Sentinels were last asked.
    pub(crate) async fn primary(&self) -> Result<Arc<Node>, CallError> {
        let known = self.known().clone();
        match known {
            Some(primary) => Ok(primary),
            None => self.ask().await,
        }
    }

    /// To be asked again.
    pub(crate) fn forget(&self) {
        *self.known() = None;
    }

    /// Asks the Sentinels in turn, until one answers.
    pub(crate) async fn ask(&self) -> Result<Arc<Node>, CallError> {
        let mut error = None;
        for sentinel in &self.sentinels {
            match self.ask_one(sentinel).await {
                Ok((host, port)) => {
                    let info = at(&self.server, &host, port);
                    let mut known = self.known();
                    return match &*known {
                        Some(primary) if primary.address() == info.addr().to_string() => {
                            Ok(Arc::clone(primary))
                        }
                        _ => {
                            let primary = Arc::new(Node::new(info, self.response_timeout)?);
                            *known = Some(Arc::clone(&primary));
                            Ok(primary)
                        }
                    };
                }
                Err(other) => error = Some(other),
            }
        }
        Err(error.unwrap_or_else(CallError::silence))
    }

    async fn ask_one(&self, sentinel: &Node) -> Result<(String, u16), CallError> {
        let mut question = redis::cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        let answer = sentinel.call(&question).await?;
        let address: Option<(String, u16)> =
            redis::from_redis_value(answer).map_err(RedisError::from)?;
        address.ok_or_else(|| {
            let unknown = (
                ErrorKind::MasterNameNotFoundBySentinel,
                "the Sentinels know no primary of this name",
            );
            CallError::NotHere(unknown.into())
        })
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Option<Arc<Node>>> {
        self.primary.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
