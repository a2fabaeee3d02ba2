//! The calls as the server takes them, and the grant as it answers it.

use crate::Error;
use crate::backend::{Grant, Granted, Request};
use redis::{Cmd, Value};
use std::time::Duration;
use tokio::time::Instant;

/// A new grant, or that of an earlier call whose answer was lost: `HOLDS 1` tells them apart.
/// `block` is how long to wait in line, with zero for ever.
pub(crate) fn acquire(request: &Request, block: Option<Duration>) -> Cmd {
    let mut command = redis::cmd("LOCK.ACQUIRE");
    command.arg(&request.key).arg(&request.owner);
    command.arg("PX").arg(millis(request.lease));
    if let Some(block) = block {
        command.arg("BLOCK").arg(millis(block));
    }
    command.arg("HOLDS").arg(1);
    command
}

/// One more hold of this grant, up to `holds`.
pub(crate) fn enter(grant: &Grant, holds: u32) -> Cmd {
    let mut command = redis::cmd("LOCK.ACQUIRE");
    command.arg(&grant.key).arg(&grant.owner);
    command
        .arg("HOLDS")
        .arg(holds)
        .arg("TOKEN")
        .arg(grant.token);
    command
}

/// The lease of this grant begins anew.
pub(crate) fn renew(grant: &Grant, lease: Duration) -> Cmd {
    let mut command = redis::cmd("LOCK.RENEW");
    command.arg(&grant.key).arg(&grant.owner);
    command.arg("PX").arg(millis(lease));
    command.arg("TOKEN").arg(grant.token);
    command
}

/// The lease of this grant begins anew, and its token is lifted to this one: both have the same effect
/// when they are repeated.
pub(crate) fn raise(grant: &Grant, lease: Duration, token: u64) -> Cmd {
    let mut command = renew(grant, lease);
    command.arg("RAISE").arg(token);
    command
}

/// Down to this many holds of this grant.
pub(crate) fn release(grant: &Grant, holds: u32) -> Cmd {
    let mut command = redis::cmd("LOCK.RELEASE");
    command.arg(&grant.key).arg(&grant.owner);
    command
        .arg("HOLDS")
        .arg(holds)
        .arg("TOKEN")
        .arg(grant.token);
    command
}

/// The owner neither holds nor waits any more.
pub(crate) fn release_all(key: &[u8], owner: &str) -> Cmd {
    let mut command = redis::cmd("LOCK.RELEASE");
    command.arg(key).arg(owner).arg("ALL");
    command
}

/// Reads the answer of an acquire or a renewal that was sent at this time; none for nil.
pub(crate) fn granted(key: &[u8], sent: Instant, answer: &Value) -> Result<Option<Granted>, Error> {
    let unexpected = || Error::Unexpected(format!("{answer:?}"));
    let parts = match answer {
        Value::Nil => return Ok(None),
        Value::Array(parts) => parts.as_slice(),
        _ => return Err(unexpected()),
    };
    let [
        Value::Int(token),
        Value::BulkString(owner),
        Value::Int(holds),
        Value::Int(lease),
    ] = parts
    else {
        return Err(unexpected());
    };
    let read = || {
        let grant = Grant {
            key: key.to_vec(),
            owner: String::from_utf8(owner.clone()).ok()?,
            token: u64::try_from(*token).ok()?,
        };
        Some(Granted {
            grant,
            holds: u32::try_from(*holds).ok()?,
            trusted_until: sent + Duration::from_millis(u64::try_from(*lease).ok()?),
        })
    };
    read().map(Some).ok_or_else(unexpected)
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
    fn a_grant_is_trusted_from_when_it_was_asked_for() {
        let sent = Instant::now();
        let owner = Value::BulkString(b"me".to_vec());
        let token = 9_007_199_254_740_991;
        let answer = Value::Array(vec![
            Value::Int(token),
            owner,
            Value::Int(2),
            Value::Int(500),
        ]);
        let granted = granted(b"k", sent, &answer).expect("a grant").expect("one");
        assert_eq!(granted.trusted_until, sent + Duration::from_millis(500));
        assert_eq!(granted.grant.token, 9_007_199_254_740_991);
        assert_eq!((granted.grant.owner.as_str(), granted.holds), ("me", 2));
    }

    #[test]
    fn other_answers_are_told_from_nil() {
        let now = Instant::now();
        assert!(matches!(granted(b"k", now, &Value::Nil), Ok(None)));
        assert!(granted(b"k", now, &Value::Okay).is_err());
        assert!(granted(b"k", now, &Value::Array(vec![Value::Int(1)])).is_err());
    }
}
