//! One acquire: first a wait, then a grant. Its commands.

use super::reply::{bytes, text};
use super::{Ended, Time};
use crate::error::{Error, ErrorKind};
use crate::mutex::lock;
use redis::{Cmd, RedisWrite, ToRedisArgs, Value};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The end of a wait without a limit.
pub(super) const FAR: Time = Duration::MAX;

/// The longest time that the server takes.
const TEN_YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Milliseconds for the server, rounded up.
pub(crate) fn millis(time: Duration) -> u64 {
    let rounded = time.min(TEN_YEARS).as_nanos().div_ceil(1_000_000);
    u64::try_from(rounded).unwrap_or(u64::MAX)
}

/// The shortest lease that the server renews.
pub(crate) const LEAST_LEASE: Duration = Duration::from_secs(1);

/// Identifies a wait or a grant: no two of a client have the same key and owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub(crate) key: Arc<[u8]>,
    pub(crate) owner: Arc<str>,
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

/// How a lock is acquired.
#[derive(Clone, Default)]
pub(crate) struct Terms {
    pub(crate) key: Arc<[u8]>,
    /// How many may have the lock at once; none: any number.
    pub(crate) limit: Option<u32>,
    /// None: without a limit.
    pub(crate) wait: Option<Duration>,
    /// A lease that is not renewed: the grant leaves the session before the user has it.
    pub(crate) fixed: Option<Duration>,
    /// The longest time of the grant.
    pub(crate) at_most: Option<Duration>,
    /// The owner and the token of a grant to adopt, instead of a new one.
    pub(crate) adopts: Option<(Arc<str>, u64)>,
}

/// The words for a limit; without them it is 1, and 0 stands for none.
fn words_of(limit: Option<u32>) -> Option<(&'static str, u32)> {
    (limit != Some(1)).then_some(("LIMIT", limit.unwrap_or(0)))
}

/// How far a claim has come. A grant that is held and whose time has passed is unsure. What has ended has a failure: why
/// there is no grant, or why it is held no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    Asked,
    InLine,
    Held,
    Ended,
}

/// The owner of a task; none means that the next acquire uses a fresh one.
pub(crate) type TaskOwner = Mutex<Option<Arc<str>>>;

/// The caller of an acquire, and later the holder of its grant.
#[derive(Debug, Default)]
pub(crate) struct Caller {
    /// The claim has changed.
    pub(crate) changed: Notify,
    /// Cancelled when the caller gives the acquire up.
    pub(crate) given_up: CancellationToken,
    /// Cancelled when the grant is lost.
    pub(crate) lost: CancellationToken,
}

/// One acquire: first a wait, then a grant.
#[derive(Default)]
pub(crate) struct Claim {
    pub(crate) name: Name,
    pub(crate) terms: Terms,
    pub(crate) task: Option<Arc<TaskOwner>>,
    pub(crate) caller: Arc<Caller>,
    /// The server that has the lock.
    pub(super) node: usize,
    pub(super) phase: Phase,
    /// The session of the place, or of the grant; 0: none.
    pub(super) session: u64,
    pub(crate) token: u64,
    pub(crate) holds: u64,
    /// The lease of the grant.
    pub(super) lease: Duration,
    /// Until when nobody else has the lock.
    pub(super) sure: Time,
    /// No POLL sent before makes it sure, and no ACQUIRE sent before brings a place.
    pub(super) from: Time,
    /// Since when the server has not answered after `sure`.
    pub(super) tried: Time,
    /// Another node of the cluster may have the grant: the reason of its loss if not.
    pub(super) doubt: Option<&'static str>,
    /// The user has the grant.
    pub(super) is_handed_over: bool,
    /// When the user got the grant.
    pub(crate) taken: Time,
    /// The error of the last try to acquire, or the end.
    pub(super) failure: Option<Error>,
    /// An acquire had no reply, so the server may still carry it out.
    pub(super) is_open: bool,
    /// The time of one try.
    pub(super) limit: Duration,
    /// The end of asking without a reply.
    pub(super) asked_end: Time,
    /// The end of the caller's time.
    pub(super) end: Time,
    /// When the caller gives up at the latest.
    pub(super) last: Time,
}

impl Claim {
    /// A claim that is not asked for yet.
    pub(crate) fn new(terms: Terms, given_up: CancellationToken, node: usize) -> Self {
        let adopted = terms.adopts.as_ref().map(|(owner, _)| Arc::clone(owner));
        let caller = Caller {
            given_up,
            ..Caller::default()
        };
        Self {
            name: Name {
                key: Arc::clone(&terms.key),
                owner: adopted.unwrap_or_default(),
            },
            terms,
            caller: Arc::new(caller),
            node,
            ..Self::default()
        }
    }

    /// Asks for the lock. HOLDS 1 makes it safe to repeat.
    pub(super) fn acquire_command(&self, session: u64, at: Time) -> Cmd {
        let (name, limit) = (&self.name, words_of(self.terms.limit));
        let lease = ("PX", millis(self.lease.max(LEAST_LEASE)));
        let session = ("SESSION", session);
        if let Some((_, token)) = self.terms.adopts {
            return command!["LOCK.RENEW", name, lease, session, "TOKEN", token];
        }
        let left = match self.last {
            FAR => 0,
            _ => millis(self.end.saturating_sub(at)).max(1),
        };
        let waits = self.terms.wait != Some(Duration::ZERO);
        let queue = waits.then_some(("QUEUE", left));
        let options = (lease, ("HOLDS", 1), session, queue);
        command!["LOCK.ACQUIRE", name, limit, options]
    }

    /// Asks whether the grant stands.
    pub(crate) fn check_command(&self) -> Cmd {
        command!["LOCK.FENCE", &*self.name.key, self.token]
    }

    /// Adds a hold.
    pub(crate) fn enter_command(&self, limit: Option<u32>) -> Cmd {
        let (lease, holds) = (("PX", millis(self.lease)), ("HOLDS", self.holds + 1));
        let (name, token) = (&self.name, ("TOKEN", self.token));
        command!["LOCK.ACQUIRE", name, words_of(limit), lease, holds, token]
    }

    /// The user's own release. It alone names the session, so that the server reports no loss.
    pub(super) fn release_command(&self) -> Cmd {
        let (holds, token) = (("HOLDS", self.holds), ("TOKEN", self.token));
        let session = (self.session != 0).then_some(("SESSION", self.session));
        command!["LOCK.RELEASE", &self.name, holds, token, session]
    }

    /// Renews the grant with its lease, wherever it is; this option may say more.
    pub(crate) fn renew_command(&self, option: Option<(&str, u64)>) -> Cmd {
        command!["LOCK.RENEW", &self.name, "TOKEN", self.token, option]
    }

    pub(super) fn ended(&self) -> Ended {
        (self.name.clone(), self.token)
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Asked | Phase::InLine)
    }

    /// Fails if it has ended.
    pub(crate) fn require_held(&self) -> Result<(), Error> {
        match &self.failure {
            Some(failure) if self.phase == Phase::Ended => Err(failure.clone()),
            _ => Ok(()),
        }
    }

    /// How long it is sure that nobody else has the lock.
    pub(crate) fn remaining(&self, at: Time) -> Duration {
        match self.phase {
            Phase::Held => self.sure.saturating_sub(at),
            _ => Duration::ZERO,
        }
    }

    /// Another node of the cluster may have the grant.
    pub(crate) fn is_sought(&self) -> bool {
        self.phase == Phase::Held && self.doubt.is_some()
    }

    /// Why the grant was lost, once the user had it.
    pub(crate) fn loss(&self) -> Option<Error> {
        let loss = self.failure.clone();
        let loss = loss.filter(|_| self.is_lost() && self.is_handed_over);
        loss.map(|loss| loss.of("hold", &self.name.key))
    }

    /// Its grant has ended before it was released.
    pub(super) fn is_lost(&self) -> bool {
        let failure = self.failure.as_ref().map(Error::kind);
        self.phase == Phase::Ended && failure == Some(ErrorKind::Lost)
    }

    pub(super) fn renounce_owner(&self) {
        if let Some(task) = &self.task {
            *lock(task) = None;
        }
    }
}
