//! The calls as the server takes them, and the grant as it answers it.

use crate::Error;
use crate::class::Kind;
use crate::request::{Change, Grant, Granted, Mode, Request};
use redis::{Cmd, Value};
use std::time::Duration;
use tokio::time::Instant;

/// A call, and what kind it is of: that says what its errors mean.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) command: Cmd,
    pub(crate) kind: Kind,
}

impl Call {
    fn about(name: &str, key: &[u8], owner: &str, kind: Kind) -> Self {
        let mut command = redis::cmd(name);
        command.arg(key).arg(owner);
        Self { command, kind }
    }

    /// One that only looks, or is no command of the module.
    pub(crate) fn other(command: Cmd) -> Self {
        let kind = Kind::Acquire;
        Self { command, kind }
    }

    pub(crate) fn words(words: &[&str]) -> Self {
        let mut command = Cmd::new();
        command.arg(words);
        Self::other(command)
    }

    fn with(mut self, option: &str, value: u64) -> Self {
        self.command.arg(option).arg(value);
        self
    }

    fn mode(mut self, mode: Mode) -> Self {
        match mode {
            Mode::Exclusive => self,
            Mode::Shared => {
                self.command.arg("SHARED");
                self
            }
            Mode::Limit(limit) => self.with("LIMIT", limit.into()),
        }
    }
}

/// A new grant, or that of an earlier call whose answer was lost: `HOLDS 1` tells them apart. Kept by the
/// connection that it is sent on.
pub(crate) fn acquire(request: &Request) -> Call {
    let call = plain_acquire(request);
    match request.life.keep {
        Some(keep) => call.with("KEEP", millis(keep)),
        None => call,
    }
}

/// The same, not kept: a connection that waits says nothing. `block` is how long to wait in line, with
/// zero for ever.
pub(crate) fn acquire_in_line(request: &Request, block: Option<Duration>) -> Call {
    let call = plain_acquire(request);
    match block {
        Some(block) => call.with("BLOCK", millis(block)),
        None => call,
    }
}

fn plain_acquire(request: &Request) -> Call {
    Call::about("LOCK.ACQUIRE", &request.key, &request.owner, Kind::Acquire)
        .mode(request.mode)
        .with("PX", millis(request.life.lease))
        .with("HOLDS", 1)
}

/// One more hold of this grant, up to `holds`.
pub(crate) fn enter(grant: &Grant, holds: u32, mode: Mode) -> Call {
    Call::about("LOCK.ACQUIRE", &grant.key, &grant.owner, Kind::Acquire)
        .mode(mode)
        .with("HOLDS", holds.into())
        .with("TOKEN", grant.token)
}

/// The lease of this grant begins anew.
pub(crate) fn renew(grant: &Grant, change: Change) -> Call {
    let mut call = Call::about("LOCK.RENEW", &grant.key, &grant.owner, Kind::Renew);
    if change.shares {
        call = call.mode(Mode::Shared);
    }
    if let Some(lease) = change.lease {
        call = call.with("PX", millis(lease));
    }
    if let Some(keep) = change.keep {
        call = call.with("KEEP", millis(keep));
    }
    call.with("TOKEN", grant.token)
}

/// The lease of this grant begins anew, and its token is lifted to this one: both have the same effect
/// when they are repeated.
pub(crate) fn raise(grant: &Grant, lease: Duration, token: u64) -> Call {
    let change = Change {
        lease: Some(lease),
        ..Change::default()
    };
    renew(grant, change).with("RAISE", token)
}

/// Down to this many holds of this grant.
pub(crate) fn release(grant: &Grant, holds: u32) -> Call {
    Call::about("LOCK.RELEASE", &grant.key, &grant.owner, Kind::Release)
        .with("HOLDS", holds.into())
        .with("TOKEN", grant.token)
}

/// The owner neither holds nor waits any more.
pub(crate) fn release_all(key: &[u8], owner: &str) -> Call {
    let mut call = Call::about("LOCK.RELEASE", key, owner, Kind::Release);
    call.command.arg("ALL");
    call
}

/// Whether this grant stands.
pub(crate) fn fence(grant: &Grant) -> Call {
    let mut command = redis::cmd("LOCK.FENCE");
    command.arg(&grant.key).arg(grant.token);
    // A right that is missing is told at once.
    let kind = Kind::Release;
    Call { command, kind }
}

/// Who has it, and which connections keep it.
pub(crate) fn holders(key: &[u8]) -> Call {
    let mut command = redis::cmd("LOCK.HOLDERS");
    command.arg(key);
    Call::other(command)
}

/// Reads the answer of an acquire or a renewal that was sent at this time; none for nil.
pub(crate) fn granted(key: &[u8], sent: Instant, answer: &Value) -> Result<Option<Granted>, Error> {
    let parts = match answer {
        Value::Nil => return Ok(None),
        Value::Array(parts) => parts.as_slice(),
        _ => return Err(Error::unexpected(answer)),
    };
    // Later versions may append more.
    let [
        Value::Int(token),
        Value::BulkString(owner),
        Value::Int(_holds),
        Value::Int(lease),
        ..,
    ] = parts
    else {
        return Err(Error::unexpected(answer));
    };
    let read = || {
        let grant = Grant {
            key: key.to_vec(),
            owner: String::from_utf8(owner.clone()).ok()?,
            token: u64::try_from(*token).ok()?,
        };
        let lease = Duration::from_millis(u64::try_from(*lease).ok()?);
        Some(Granted {
            grant,
            lease,
            known_until: after(sent, lease),
        })
    };
    read().map(Some).ok_or_else(|| Error::unexpected(answer))
}

/// This much later, or later than anybody waits.
pub(crate) fn after(start: Instant, time: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    start + time.min(YEAR * 10)
}

/// Whole milliseconds, rounded up: what is not zero stays so.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{granted, millis};
    use redis::Value;
    use std::time::Duration;
    use tokio::time::Instant;

    #[test]
    fn a_wait_of_less_than_a_millisecond_is_not_for_ever() {
        assert_eq!(millis(Duration::from_nanos(1)), 1);
        assert_eq!(millis(Duration::ZERO), 0);
        assert_eq!(millis(Duration::from_micros(1001)), 2);
    }

    #[test]
    fn a_grant_is_known_from_when_it_was_asked_for() {
        let sent = Instant::now();
        let owner = Value::BulkString(b"me".to_vec());
        let token = 9_007_199_254_740_991;
        let mut parts = vec![Value::Int(token), owner, Value::Int(2), Value::Int(500)];
        for _ in 0..2 {
            let answer = Value::Array(parts.clone());
            let granted = granted(b"k", sent, &answer).expect("a grant").expect("one");
            assert_eq!(granted.known_until, sent + Duration::from_millis(500));
            assert_eq!(granted.grant.token, 9_007_199_254_740_991);
            assert_eq!(granted.grant.owner, "me");
            // The limit in force, or what a later version appends.
            parts.push(Value::Int(0));
        }
    }

    #[test]
    fn other_answers_are_told_from_nil() {
        let now = Instant::now();
        assert!(matches!(granted(b"k", now, &Value::Nil), Ok(None)));
        assert!(granted(b"k", now, &Value::Okay).is_err());
        assert!(granted(b"k", now, &Value::Array(vec![Value::Int(1)])).is_err());
    }
}
