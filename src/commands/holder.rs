//! The fields of a holder in `LOCK.INFO` and `LOCK.HOLDERS`.

use redis_lock_core::sessions::SessionId;
use redis_lock_core::{Deadline, Holder, Owner, UnixTime};

use crate::server::Context;

const NO_DEADLINE: i64 = -1;

/// The numeric fields of a holder, with their names.
pub(super) fn holder_numbers(holder: &Holder<'_>, now: UnixTime) -> [(&'static [u8], i64); 5] {
    let grant = holder.grant;
    let ttl_ms = match holder.end {
        Deadline::At(at) => at.saturating_sub(now.millis()).cast_signed(),
        Deadline::Never => NO_DEADLINE,
    };
    let held_ms = now.micros().saturating_sub(grant.token.number()) / 1000;
    [
        (b"token", grant.token.number().cast_signed()),
        (b"holds", i64::from(grant.holds.number())),
        (b"lease-ms", grant.lease.millis().cast_signed()),
        (b"ttl-ms", ttl_ms),
        (b"held-ms", held_ms.cast_signed()),
    ]
}

/// Replies with the owner and these numbers, as fields of a map.
pub(super) fn reply_fields(context: Context<'_>, owner: Owner<'_>, numbers: &[(&[u8], i64)]) {
    context.reply_bytes(b"owner");
    context.reply_bytes(owner.bytes());
    for (name, number) in numbers {
        reply_number(context, name, *number);
    }
}

/// Replies with one field of a map.
pub(super) fn reply_number(context: Context<'_>, name: &[u8], number: i64) {
    context.reply_bytes(name);
    context.reply_integer(number);
}

/// A session's id; 0 for none.
pub(super) fn id_or_none(session: Option<SessionId>) -> i64 {
    session.map_or(0, SessionId::number).cast_signed()
}

/// Converts a count to the integer type of replies.
pub(super) fn integer(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
