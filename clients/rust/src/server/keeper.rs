//! The connection on which a server keeps the grants of this process: its end is the event.

use super::commands::Call;
use super::node::Common;
use super::{CallError, Link};
use crate::held::Held;
use crate::holder::{self, Holder};
use crate::observer::Reach;
use redis::Value;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// Grants that were kept together.
pub(crate) type Kept = Vec<Arc<Held>>;

/// A timer that comes so late tells of a process that stood still: what has come in the meantime is
/// read before it is judged by the clock.
pub(crate) const STOOD_STILL: Duration = Duration::from_secs(1);

/// Why a keeper is none any more.
pub(crate) const CLOSED: &str = "the connection has closed";

/// The least time between two PINGs.
const OFTEN: Duration = Duration::from_millis(100);

/// The ids of the keepers of one server, the last one at the back: it may believe that an earlier one is open still.
#[derive(Default)]
pub(crate) struct Ids(Mutex<VecDeque<u64>>);

impl Ids {
    /// How many are remembered.
    const MOST: usize = 100;

    fn locked(&self) -> MutexGuard<'_, VecDeque<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Keeper {
    pub(crate) link: Link,
    ids: Arc<Ids>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// What is kept, and how long it may go without a sign of life.
    kept: HashMap<u64, (Weak<Held>, Duration)>,
    /// How many may go so long.
    paces: BTreeMap<Duration, usize>,
    /// How many calls wait at this server, and want to know whether it answers.
    waiting: usize,
    /// When the last PING was sent that has been answered.
    proof: Option<Instant>,
    is_over: bool,
}

impl Keeper {
    pub(crate) fn new(link: Link, ids: &Arc<Ids>) -> Self {
        if let Some(id) = link.id() {
            let mut ids = ids.locked();
            if ids.back().is_some_and(|last| id < *last) {
                ids.clear(); // a server that counts anew: the others may be anybody's
            }
            ids.push_back(id);
            if ids.len() > Ids::MOST {
                ids.pop_front();
            }
        }
        Self {
            link,
            ids: Arc::clone(ids),
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Whether somebody else's connection keeps this grant, by an answer to `LOCK.HOLDERS` that came on this one. None
    /// where it cannot be known, for want of the right to know the own ids.
    pub(crate) fn is_kept_elsewhere(
        &self,
        is_it: impl Fn(&Holder) -> bool,
        holders: &Value,
    ) -> Option<bool> {
        let holders = holder::read(holders).unwrap_or_default();
        let kept_by = (holders.iter())
            .find(|holder| is_it(holder))
            .and_then(|holder| holder.kept_by);
        match (kept_by, self.link.id()) {
            (Some(id), Some(_)) => Some(!self.ids.locked().contains(&id)),
            (Some(_), None) => None,
            (None, _) => Some(false),
        }
    }

    /// Takes a grant in that the server keeps on this connection, or another pace of it; not if that has closed meanwhile:
    /// then what was here has been given on.
    #[must_use]
    pub(crate) fn add(&self, held: &Arc<Held>, pace: Duration) -> bool {
        let mut state = self.state();
        if state.is_over {
            return false;
        }
        let before = (state.kept).insert(held.number(), (Arc::downgrade(held), pace));
        state.add_pace(pace, &self.changed);
        if let Some((_, pace)) = before {
            state.remove_pace(pace);
        }
        true
    }

    pub(crate) fn remove(&self, number: u64) {
        let mut state = self.state();
        if let Some((_, pace)) = state.kept.remove(&number) {
            state.remove_pace(pace);
        }
    }

    /// When the PING was sent that tells of all grants that were here before.
    pub(crate) fn proof(&self) -> Option<Instant> {
        self.state().proof
    }

    /// Looks more often whether the server answers, as long as this is there.
    pub(crate) fn attend(self: &Arc<Self>) -> Attention {
        self.state().waiting += 1;
        self.changed.notify_one();
        Attention(Arc::clone(self))
    }

    /// How often to send a PING, and how long it may take; none when nobody needs to know.
    fn rhythm(&self, reply_time: Duration) -> Option<(Duration, Duration)> {
        let state = self.state();
        let pace = state.paces.keys().next().copied();
        let for_kept = pace.map(|pace| ((pace / 3).max(OFTEN), reply_time.min(pace * 2 / 3)));
        let for_waiting = (state.waiting > 0).then_some((reply_time, reply_time));
        match (for_kept, for_waiting) {
            (Some(kept), Some(waiting)) => Some((kept.0.min(waiting.0), kept.1.min(waiting.1))),
            (one, other) => one.or(other),
        }
    }

    /// Takes in no more; what was kept.
    fn end(&self) -> Kept {
        self.link.close();
        let mut state = self.state();
        state.is_over = true;
        state.paces.clear();
        let kept = std::mem::take(&mut state.kept);
        drop(state);
        kept.into_values()
            .filter_map(|(held, _)| held.upgrade())
            .collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add_pace(&mut self, pace: Duration, changed: &Notify) {
        if self
            .paces
            .first_key_value()
            .is_none_or(|(least, _)| pace < *least)
        {
            changed.notify_one();
        }
        *self.paces.entry(pace).or_default() += 1;
    }

    fn remove_pace(&mut self, pace: Duration) {
        if let Some(count) = self.paces.get_mut(&pace) {
            *count -= 1;
            if *count == 0 {
                self.paces.remove(&pace);
            }
        }
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").finish_non_exhaustive()
    }
}

/// Somebody waits at the server.
pub(crate) struct Attention(Arc<Keeper>);

impl Drop for Attention {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}

/// Sends PINGs while grants are kept, and gives them on when the connection ends, or another server has taken the place
/// of this one.
pub(crate) async fn watch(
    keeper: Arc<Keeper>,
    address: String,
    common: Common,
    gone: CancellationToken,
    reach: Arc<Reach>,
) {
    let why = tokio::select! {
        () = gone.cancelled() => None,
        why = until_it_ends(&keeper, common.reply_time) => Some(why),
    };
    let kept = keeper.end();
    if let Some(why) = why {
        reach.ended(&keeper, why);
    }
    if !kept.is_empty() {
        tracing::warn!(
            server = address,
            locks = kept.len(),
            "the keeper of locks has closed"
        );
        // Nobody listens when the client is gone.
        let _ = common.orphans.send(kept);
    }
}

/// Comes back with the reason.
async fn until_it_ends(keeper: &Keeper, reply_time: Duration) -> &'static str {
    let ping = Call::words(&["PING"]);
    let mut last = Instant::now();
    loop {
        let rhythm = keeper.rhythm(reply_time);
        let due = last + rhythm.map_or(Duration::ZERO, |(pause, _)| pause);
        tokio::select! {
            biased;
            () = keeper.link.closed() => return CLOSED,
            () = keeper.changed.notified() => continue,
            () = sleep_until(due), if rhythm.is_some() => {}
        }
        // Nobody may need to know any more.
        let Some((_, limit)) = keeper.rhythm(reply_time) else {
            continue;
        };
        last = Instant::now();
        let answer = patiently(limit, reply_time, keeper.link.send(&ping)).await;
        match answer {
            // Without the right to it, too, an answer is one.
            Some(Ok(_) | Err(CallError::Refused(_))) => keeper.state().proof = Some(last),
            Some(Err(_)) => return CLOSED,
            None => {
                keeper.link.close_as_silent();
                return "the server gives no answer";
            }
        }
    }
}

/// Waits so long for an answer, and longer when it was this process that stood still.
async fn patiently<T>(
    limit: Duration,
    grace: Duration,
    answer: impl Future<Output = T>,
) -> Option<T> {
    tokio::pin!(answer);
    let due = Instant::now() + limit;
    match timeout(limit, &mut answer).await {
        Ok(answer) => Some(answer),
        Err(_) if Instant::now() > due + STOOD_STILL => timeout(grace, answer).await.ok(),
        Err(_) => None,
    }
}
