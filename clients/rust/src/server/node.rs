//! One server and the connections to it.

use super::commands::Call;
use super::keeper::{CLOSED, Ids, Keeper, Kept, watch};
use super::pool::{self, Pool};
use super::{CallError, Link};
use crate::background::Background;
use crate::class::Kind;
use crate::observer::{Reach, Reports};
use redis::{ConnectionAddr, ConnectionInfo, ProtocolVersion, RedisError, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

/// What servers have in common.
#[derive(Clone)]
pub(crate) struct Common {
    /// How long it may take to connect, and to answer a call that does not wait.
    pub(crate) reply_time: Duration,
    pub(crate) background: Background,
    /// Who is told of keepers.
    pub(crate) reports: Reports,
    /// Where the grants go whose keeper has closed.
    pub(crate) orphans: mpsc::UnboundedSender<Kept>,
}

/// A server at one address.
pub(crate) struct Node {
    client: redis::Client,
    address: String,
    common: Common,
    keeper: Mutex<State>,
    keeper_ids: Arc<Ids>,
    reach: Arc<Reach>,
    waiting: Arc<Pool>,
    gone: CancellationToken,
    _gone_when_dropped: DropGuard,
}

#[derive(Default)]
struct State {
    keeper: Option<Arc<Keeper>>,
    /// Why there is none, and since when: who asked before takes it for an answer.
    failure: Option<(Instant, RedisError)>,
}

impl Node {
    pub(crate) fn new(info: ConnectionInfo, common: &Common) -> Result<Self, RedisError> {
        let reach = Reach::new(&common.reports, info.addr().to_string());
        Self::with(info, common, Arc::new(reach))
    }

    /// One of several that stand for one server, one after the other.
    pub(crate) fn with(
        info: ConnectionInfo,
        common: &Common,
        reach: Arc<Reach>,
    ) -> Result<Self, RedisError> {
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        // Only so does the library tell of the end of a connection.
        let redis = info
            .redis_settings()
            .clone()
            .set_protocol(ProtocolVersion::RESP3);
        let address = info.addr().to_string();
        let gone = CancellationToken::new();
        Ok(Self {
            client: redis::Client::open(info.set_tcp_settings(tcp).set_redis_settings(redis))?,
            address,
            common: common.clone(),
            keeper: Mutex::default(),
            keeper_ids: Arc::default(),
            reach,
            waiting: Arc::default(),
            _gone_when_dropped: gone.clone().drop_guard(),
            gone,
        })
    }

    /// `host:port`, or a path.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The connection that keeps the grants of this server, and on which all calls go that do not wait; a
    /// new one where there is none.
    pub(crate) async fn keeper(&self) -> Result<Arc<Keeper>, CallError> {
        let asked = Instant::now();
        let mut state = self.keeper.lock().await;
        if let Some(keeper) = &state.keeper {
            if !keeper.link.is_closed() {
                return Ok(Arc::clone(keeper));
            }
            if !self.is_gone() {
                self.reach.ended(keeper, CLOSED);
            }
        }
        if let Some((since, error)) = &state.failure
            && *since >= asked
        {
            return Err(CallError::of(error.clone(), Kind::Acquire));
        }
        let limit = self.common.reply_time;
        match Link::open(&self.client, "lock-keeper", true, limit).await {
            Ok(link) => {
                let keeper = Arc::new(Keeper::new(link, &self.keeper_ids));
                state.keeper = Some(Arc::clone(&keeper));
                state.failure = None;
                self.reach.opened(&keeper);
                let (common, gone) = (self.common.clone(), self.gone.clone());
                let (address, reach) = (self.address.clone(), Arc::clone(&self.reach));
                let watched = watch(Arc::clone(&keeper), address, common, gone, reach);
                self.common.background.start_service(watched);
                Ok(keeper)
            }
            Err(error) => {
                state.failure = Some((Instant::now(), error.clone()));
                if !self.is_gone() {
                    self.reach.down(&error.to_string());
                }
                Err(CallError::of(error, Kind::Acquire))
            }
        }
    }

    /// The one that is open, if one is.
    pub(crate) async fn open_keeper(&self) -> Option<Arc<Keeper>> {
        let keeper = self.keeper.lock().await.keeper.clone();
        keeper.filter(|keeper| !keeper.link.is_closed())
    }

    /// A connection for a call that waits.
    pub(crate) async fn wait_link(&self) -> Result<Link, CallError> {
        match self.waiting.take() {
            Some(link) => Ok(link),
            None => Link::open(&self.client, "lock-wait", false, self.common.reply_time)
                .await
                .map_err(|error| CallError::of(error, Kind::Acquire)),
        }
    }

    /// Nothing waits on it any more.
    pub(crate) fn give_back(&self, link: Link) {
        if self.waiting.give_back(link) {
            let pool = Arc::downgrade(&self.waiting);
            self.common.background.start_service(async move {
                loop {
                    sleep(pool::LONGEST).await;
                    if !pool.upgrade().is_some_and(|pool| pool.tidy()) {
                        return;
                    }
                }
            });
        }
    }

    /// This connection leads to a replica, and those that are idle may as well.
    pub(crate) fn leave(&self, link: &Link) {
        link.close();
        self.waiting.clear();
    }

    /// Ends its connections.
    pub(crate) fn close(&self) {
        self.gone.cancel();
        self.waiting.clear();
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.is_cancelled()
    }

    /// Sends a call that does not wait to the keeper. One that stays silent is closed.
    pub(crate) async fn call(&self, call: &Call) -> Result<Value, CallError> {
        let keeper = self.keeper().await?;
        self.call_on(&keeper.link, call).await
    }

    /// The same on this connection.
    pub(crate) async fn call_on(&self, link: &Link, call: &Call) -> Result<Value, CallError> {
        self.limited(link, link.send(call)).await
    }

    pub(crate) async fn ask_on(&self, link: &Link, call: &Call) -> Result<Value, CallError> {
        self.limited(link, link.send_asking(call)).await
    }

    /// Sends a call that only looks, on a connection of its own; tells whether it has come to one.
    pub(crate) async fn look(&self, call: &Call, is_sent: &mut bool) -> Result<Value, CallError> {
        let link = self.wait_link().await?;
        *is_sent = true;
        let answer = self.call_on(&link, call).await;
        self.give_back(link);
        answer
    }

    async fn limited(
        &self,
        link: &Link,
        answer: impl Future<Output = Result<Value, CallError>>,
    ) -> Result<Value, CallError> {
        let answer = timeout(self.common.reply_time, answer).await;
        let answer = answer.unwrap_or_else(|_| {
            link.close_as_silent();
            Err(CallError::silence())
        });
        if let Err(error) = &answer
            && (matches!(error, CallError::Broken(_)) || error.is_of_replica())
        {
            link.close();
        }
        answer
    }
}

/// The same way of connecting, to another place.
pub(crate) fn at(info: &ConnectionInfo, host: &str, port: u16) -> ConnectionInfo {
    let address = match info.addr().clone() {
        ConnectionAddr::TcpTls {
            insecure,
            tls_params,
            ..
        } => ConnectionAddr::TcpTls {
            host: host.to_owned(),
            port,
            insecure,
            tls_params,
        },
        _ => ConnectionAddr::Tcp(host.to_owned(), port),
    };
    info.clone().set_addr(address)
}
