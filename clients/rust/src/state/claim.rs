//! One acquire: first a wait, then a grant.

use super::reply::{bytes, text};
use super::time::{FAR, Time, millis};
use crate::error::Error;
use redis::{Cmd, RedisWrite, ToRedisArgs, Value};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The shortest lease that the server renews.
pub(crate) const LEAST_LEASE: Duration = Duration::from_secs(1);

/// Identifies a claim: no two claims of a client have the same key and owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub(crate) key: Arc<[u8]>,
    pub(crate) owner: Arc<str>,
}

/// How many may have the lock at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Exclusive,
    Shared,
    Permits(u32),
}

impl Name {
    pub(super) fn of(key: &Value, owner: &Value) -> Self {
        let (key, owner) = (bytes(key).into(), text(owner).into());
        Self { key, owner }
    }
}

impl ToRedisArgs for Name {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        out.write_arg(&self.key);
        out.write_arg(self.owner.as_bytes());
    }
}

impl ToRedisArgs for Mode {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        match self {
            Self::Exclusive => {}
            Self::Shared => out.write_arg(b"SHARED"),
            Self::Permits(most) => ("LIMIT", *most).write_redis_args(out),
        }
    }
}

/// Where a command goes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Target {
    pub(crate) node: usize,
    /// ASK led there.
    pub(crate) is_asking: bool,
}

/// How far a claim has come. A wait is asked for, in line, or over (ended without a grant); a grant is held, lost or released. A grant that is held and whose time has passed is unsure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    Asked,
    InLine,
    Over,
    Held,
    Lost,
    Released,
}

/// The owner of a task; none means that the next acquire uses a fresh one.
#[derive(Debug, Default)]
pub(crate) struct TaskOwner(Mutex<Option<Arc<str>>>);

impl TaskOwner {
    pub(crate) fn get(&self) -> Option<Arc<str>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn set(&self, owner: Option<Arc<str>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = owner;
    }
}

/// The caller of an acquire, and later the holder of its grant.
#[derive(Debug, Default)]
pub(crate) struct Caller {
    /// The claim has changed.
    pub(crate) changed: Notify,
    /// Cancelled when the grant is lost.
    pub(crate) lost: CancellationToken,
    /// Why it is lost.
    pub(crate) loss: OnceLock<Error>,
}

/// One acquire: first a wait, then a grant.
#[derive(Default)]
pub(crate) struct Claim {
    pub(crate) name: Name,
    pub(crate) mode: Mode,
    /// The lease of the grant.
    pub(crate) lease: Duration,
    /// The lease is not renewed: the grant leaves the session before the user has it.
    pub(crate) is_fixed: bool,
    /// The token of a grant to adopt, instead of a new one.
    pub(crate) adopts: Option<u64>,
    pub(crate) task: Option<Arc<TaskOwner>>,
    pub(crate) caller: Arc<Caller>,
    /// Its caller has dropped the acquire.
    pub(crate) given_up: CancellationToken,
    /// The server that has the lock.
    pub(crate) to: Target,
    pub(crate) phase: Phase,
    /// The session of the place, or of the grant; 0: none.
    pub(crate) session: u64,
    pub(crate) token: u64,
    pub(crate) holds: u64,
    /// The user has the grant.
    pub(crate) is_handed_over: bool,
    /// The time of one try.
    pub(crate) limit: Duration,
    /// The end of asking without a reply.
    pub(crate) asked_end: Time,
    /// When the caller gives up at the latest.
    pub(crate) last: Time,
    /// Acquires without a reply, which the server may still carry out.
    pub(super) open: usize,
    /// The error of the last try, or the end without a grant.
    pub(super) cause: Option<Error>,
    /// The next try is not sent before.
    pub(crate) resume: Time,
    /// The reason of the loss. A grant that is held and has one may be at another node of the cluster.
    pub(super) reason: String,
    /// See `State::sure`.
    pub(super) sure: Time,
    /// No POLL sent before makes it sure, and no ACQUIRE sent before brings a place.
    pub(super) from: Time,
    /// The end of the caller's time.
    pub(super) end: Time,
    queues: bool,
}

impl Claim {
    /// A claim that waits for this long from now on; none: without a limit. `reply` is the time of a reply.
    pub(crate) fn new(name: Name, wait: Option<Duration>, reply: Duration, at: Time) -> Self {
        let most = FAR.saturating_sub(at + reply);
        let wait = wait.map_or(most, |wait| wait.min(most));
        let asking = wait.max(reply);
        Self {
            name,
            holds: 1,
            limit: reply.min(asking / 2),
            asked_end: at + asking,
            last: at + wait + reply,
            end: at + wait,
            queues: !wait.is_zero(),
            ..Self::default()
        }
    }

    /// Asks for the lock. HOLDS 1 makes it safe to repeat.
    pub(crate) fn acquire_command(&self, session: u64, at: Time) -> Cmd {
        let lease = millis(self.lease.max(LEAST_LEASE));
        let (lease, session) = (("PX", lease), ("SESSION", session));
        if let Some(token) = self.adopts {
            return command!["LOCK.RENEW", &self.name, lease, session, "TOKEN", token];
        }
        let left = match self.last {
            FAR => 0,
            _ => millis(self.end.saturating_sub(at)).max(1),
        };
        let (mode, queue) = (self.mode, self.queues.then_some(("QUEUE", left)));
        command![
            "LOCK.ACQUIRE",
            &self.name,
            mode,
            lease,
            "HOLDS",
            1,
            session,
            queue
        ]
    }

    /// The user's own release. It alone names the session, so that the server reports no loss.
    pub(crate) fn release_command(&self) -> Cmd {
        let (holds, token) = (("HOLDS", self.holds), ("TOKEN", self.token));
        let session = (self.session != 0).then_some(("SESSION", self.session));
        command!["LOCK.RELEASE", &self.name, holds, token, session]
    }

    /// Moves the grant to a session.
    pub(crate) fn renew_command(&self, session: u64) -> Cmd {
        let (name, token) = (&self.name, self.token);
        command!["LOCK.RENEW", name, "SESSION", session, "TOKEN", token]
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Asked | Phase::InLine)
    }

    pub(super) fn renounce_owner(&self) {
        if let Some(task) = &self.task {
            task.set(None);
        }
    }
}
