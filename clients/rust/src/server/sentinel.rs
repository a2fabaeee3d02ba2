//! The server that the Sentinels call the primary.

use super::CallError;
use super::commands::Call;
use super::node::{Common, Node, at};
use crate::class::Kind;
use crate::observer::{Reach, Reports};
use redis::{ConnectionInfo, ErrorKind, RedisError};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

/// A primary that is looked for by its name.
pub(crate) struct Sentinel {
    name: String,
    sentinels: Vec<Arc<Node>>,
    /// How to connect to the servers; the address in it is not used.
    server: ConnectionInfo,
    common: Common,
    /// Of the primary, whichever it is.
    reach: Arc<Reach>,
    known: Mutex<Known>,
    asking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    primary: Option<Arc<Node>>,
    /// It may be another by now.
    is_doubted: bool,
    /// When the Sentinels said which one it is.
    asked: Option<Instant>,
    /// No Sentinel answers: it is used until they are asked again.
    makes_do_until: Option<Instant>,
}

impl Known {
    fn makes_do(&self) -> bool {
        self.makes_do_until.is_some_and(|end| Instant::now() < end)
    }
}

impl Sentinel {
    pub(crate) fn new(
        name: String,
        sentinels: Vec<ConnectionInfo>,
        server: ConnectionInfo,
        common: &Common,
    ) -> Result<Self, RedisError> {
        // They keep no locks.
        let unobserved = Common {
            reports: Reports::default(),
            ..common.clone()
        };
        let sentinels = sentinels.into_iter();
        let sentinels = sentinels.map(|it| Ok(Arc::new(Node::new(it, &unobserved)?)));
        let sentinels = sentinels.collect::<Result<Vec<_>, RedisError>>()?;
        if sentinels.is_empty() {
            return Err((ErrorKind::EmptySentinelList, "at least one Sentinel").into());
        }
        Ok(Self {
            reach: Arc::new(Reach::new(&common.reports, name.as_str())),
            name,
            sentinels,
            server,
            common: common.clone(),
            known: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        })
    }

    /// The primary as it was when the Sentinels were last asked.
    pub(crate) async fn primary(&self) -> Result<Arc<Node>, CallError> {
        if let Some(primary) = self.usable() {
            return Ok(primary);
        }
        let _asking = self.asking.lock().await;
        // Somebody else may have asked meanwhile.
        match self.usable() {
            Some(primary) => Ok(primary),
            None => self.ask().await,
        }
    }

    fn usable(&self) -> Option<Arc<Node>> {
        let known = self.known();
        let primary = known.primary.as_ref();
        let is_usable = !known.is_doubted || known.makes_do();
        primary.filter(|_| is_usable).cloned()
    }

    /// To be asked again.
    pub(crate) fn forget(&self) {
        self.known().is_doubted = true;
    }

    pub(crate) fn close(&self) {
        for sentinel in &self.sentinels {
            sentinel.close();
        }
        if let Some(primary) = &self.known().primary {
            primary.close();
        }
    }

    /// Whether another server is the primary, as far as the Sentinels can tell. They are not asked more often
    /// than a reply may take.
    pub(crate) async fn has_left(&self, node: &Node) -> bool {
        let _asking = self.asking.lock().await;
        let is_due = |asked: Instant| asked.elapsed() >= self.common.reply_time;
        let makes_do = self.known().makes_do();
        if !makes_do && self.known().asked.is_none_or(is_due) {
            let _ = self.ask().await;
        }
        let known = self.known();
        let primary = known.primary.as_ref();
        primary.is_some_and(|primary| primary.address() != node.address())
    }

    /// Asks all at once, and takes what more than half of them say, or else most of those that answer in half the time of a
    /// reply. Where none does, the last primary that is known may be well all the same.
    async fn ask(&self) -> Result<Arc<Node>, CallError> {
        let (answers, mut answered) = mpsc::unbounded_channel();
        for sentinel in &self.sentinels {
            let asking = ask_one(Arc::clone(sentinel), self.name.clone());
            let answers = answers.clone();
            // Also when nobody waits any more: so the connection is there the next time.
            self.common.background.start_service(async move {
                let _ = answers.send(asking.await);
            });
        }
        drop(answers);
        let mut said: HashMap<(String, u16), usize> = HashMap::new();
        let mut error = None;
        let patience = sleep(self.common.reply_time / 2);
        tokio::pin!(patience);
        loop {
            let can_do = !said.is_empty() || self.known().primary.is_some();
            let answer = tokio::select! {
                biased;
                answer = answered.recv() => answer,
                () = &mut patience, if can_do => None,
            };
            let Some(answer) = answer else { break };
            match answer {
                Ok(address) => {
                    let count = said.entry(address).or_default();
                    *count += 1;
                    if *count > self.sentinels.len() / 2 {
                        break;
                    }
                }
                Err(other) => error = Some(other),
            }
        }
        let most = said.into_iter().max_by_key(|(_, count)| *count);
        let Some(((host, port), _)) = most else {
            let mut known = self.known();
            let Some(primary) = known.primary.clone() else {
                return Err(error.unwrap_or_else(CallError::silence));
            };
            tracing::debug!(?error, "no Sentinel answers");
            known.makes_do_until = Some(Instant::now() + self.common.reply_time);
            return Ok(primary);
        };
        let info = at(&self.server, &host, port);
        let mut known = self.known();
        known.asked = Some(Instant::now());
        known.is_doubted = false;
        known.makes_do_until = None;
        match &known.primary {
            Some(primary) if primary.address() == info.addr().to_string() => {
                Ok(Arc::clone(primary))
            }
            _ => {
                let primary = Node::with(info, &self.common, Arc::clone(&self.reach));
                let primary = primary.map_err(|error| CallError::of(error, Kind::Acquire))?;
                let primary = Arc::new(primary);
                tracing::debug!(server = primary.address(), "the primary");
                known.primary = Some(Arc::clone(&primary));
                Ok(primary)
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn ask_one(sentinel: Arc<Node>, name: String) -> Result<(String, u16), CallError> {
    let question = Call::words(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &name]);
    let answer = sentinel.call(&question).await?;
    let address: Option<(String, u16)> =
        redis::from_redis_value(answer).map_err(|error| CallError::Passing(error.into()))?;
    address.ok_or_else(|| {
        let unknown = (
            ErrorKind::MasterNameNotFoundBySentinel,
            "the Sentinels know no primary of this name",
        );
        CallError::Passing(unknown.into())
    })
}
