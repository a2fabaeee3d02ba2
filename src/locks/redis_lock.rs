//! The data type `RedisLock`: its stored form, version 1.
//!
//! A lock is stored as token, hold count, lease and owner; its deadline is the key's expiry, which
//! the server stores itself. The token clock is stored beside the keys, as one number.

use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

use super::{Effect, last_token, observe_token};
use crate::core::{Deadline, Grant, Holds, Lease, Owner, Record, RecordBuffer, Token};
use crate::server::{
    AofWriter, Context, DataType, Digest, RdbReader, RdbWriter, Text, TypeHandle, Value,
};

const ENCODING: c_int = 1;

static HANDLE: TypeHandle = TypeHandle::new();

/// Is told that a key of a database has lost its lock.
pub(crate) type Lost = fn(Context<'_>, i32, &[u8]);

static LOST: OnceLock<Lost> = OnceLock::new();

pub(super) fn tell_losses(lost: Lost) {
    LOST.get_or_init(|| lost);
}

/// The type of a held lock's value.
pub(crate) struct RedisLock;

impl RedisLock {
    /// Reads a value of this type.
    pub(super) fn record(value: &[u8]) -> Record<'_> {
        Record::decode(value).expect("a value that this module encoded")
    }
}

impl DataType for RedisLock {
    const NAME: &'static CStr = c"RedisLock";
    const ENCODING: c_int = ENCODING;

    fn handle() -> &'static TypeHandle {
        &HANDLE
    }

    fn save(value: &[u8], out: &mut RdbWriter) {
        let Record { owner, grant } = Self::record(value);
        out.number(grant.token.number());
        out.number(u64::from(grant.holds.number()));
        out.number(grant.lease.millis());
        out.bytes(owner.bytes());
    }

    fn load(stored: &mut RdbReader, encoding: c_int) -> Option<Value> {
        if encoding != ENCODING {
            return None;
        }
        let grant = Grant {
            token: stored.number().and_then(Token::new)?,
            holds: stored
                .number()
                .and_then(|holds| u32::try_from(holds).ok())
                .and_then(Holds::new)?,
            lease: stored.number().and_then(Lease::from_millis)?,
        };
        let value = stored.bytes(Owner::LONGEST, |owner| {
            let owner = Owner::new(owner)?;
            let mut buffer = RecordBuffer::new();
            Some(Value::new(Record { owner, grant }.encode(&mut buffer)))
        })?;
        // Even a lock that has expired by now, and never becomes a key, has used its token.
        observe_token(grant.token);
        Some(value)
    }

    fn rewrite(key: Text<'_>, value: &[u8], out: &mut AofWriter) {
        let Record { owner, grant } = Self::record(value);
        let deadline = Deadline::Never; // the server writes the expiry behind it
        Effect {
            owner,
            grant,
            deadline,
        }
        .rewrite(key, out);
    }

    fn lost(context: Context<'_>, database: c_int, key: &[u8]) {
        if let Some(lost) = LOST.get() {
            lost(context, database, key);
        }
    }

    fn digest(value: &[u8], out: &mut Digest) {
        let Record { owner, grant } = Self::record(value);
        out.bytes(owner.bytes());
        out.number(grant.token.number().cast_signed());
        out.number(i64::from(grant.holds.number()));
        out.number(grant.lease.millis().cast_signed());
    }

    fn save_extra(out: &mut RdbWriter) {
        out.number(last_token().map_or(0, Token::number));
    }

    fn has_extra() -> bool {
        last_token().is_some()
    }

    fn load_extra(stored: &mut RdbReader, encoding: c_int) -> bool {
        if encoding != ENCODING {
            return false;
        }
        match stored.number() {
            Some(0) => true,
            Some(number) => Token::new(number).map(observe_token).is_some(),
            None => false,
        }
    }
}
