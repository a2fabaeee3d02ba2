//! The data type `RedisLock`: its stored form, version 1.
//!
//! A lock is stored as token, hold count, lease and owner; its deadline is the key's expiry, which
//! the server stores itself. The token clock is stored beside the keys, as one number.

use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

use redis_lock_core::{Deadline, EffectBuffer, Fields, Held, Record, RecordBuffer, Token};

use super::{effect, grant_end, last_token, observe_token};
use crate::server::{
    AofWriter, Context, DataType, Digest, Lost, RdbReader, RdbWriter, Text, TypeHandle, Value,
};

const ENCODING: c_int = 1;

static HANDLE: TypeHandle = TypeHandle::new();

/// Called with the database and the key that has lost its lock.
pub(crate) type OnLoss = fn(Context<'_>, i32, &[u8]);

static ON_LOSS: OnceLock<OnLoss> = OnceLock::new();

pub(super) fn on_loss(handler: OnLoss) {
    ON_LOSS.get_or_init(|| handler);
}

/// The type of a held lock's value.
pub(crate) struct RedisLock;

impl RedisLock {
    /// Decodes a value of this type.
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
        let fields = Fields::from(Self::record(value));
        out.number(fields.token);
        out.number(fields.holds);
        out.number(fields.lease_ms);
        out.bytes(fields.owner);
    }

    fn load(stored: &mut RdbReader, encoding: c_int) -> Result<Value, String> {
        read_lock(stored, encoding).map_err(|reason| format!("a stored lock is refused: {reason}"))
    }

    fn rewrite(key: Text<'_>, value: &[u8], out: &mut AofWriter) {
        let Record { owner, grant } = Self::record(value);
        let held = Held {
            owner,
            grant,
            deadline: Deadline::Never, // the server writes the expiry after it
        };
        effect::rewrite(key, held.effect(&mut EffectBuffer::new()), out);
    }

    fn lost(lost: &Lost<'_>) {
        if grant_end::is_releasing() {
            // The release serves the queue itself.
            return;
        }
        grant_end::lost(lost, Self::record(lost.value()).grant.token);
        if let Some(handler) = ON_LOSS.get() {
            handler(lost.context(), lost.database(), lost.key());
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

    fn load_extra(stored: &mut RdbReader, encoding: c_int) -> Result<(), String> {
        read_clock(stored, encoding)
            .map_err(|reason| format!("the stored token clock is refused: {reason}"))
    }
}

fn read_lock(stored: &mut RdbReader, encoding: c_int) -> Result<Value, String> {
    check_encoding(encoding)?;
    let token = read_number(stored, "token")?;
    let holds = read_number(stored, "hold count")?;
    let lease_ms = read_number(stored, "lease")?;
    let value = stored.bytes(|owner| {
        let fields = Fields {
            token,
            holds,
            lease_ms,
            owner,
        };
        let record = Record::try_from(fields).map_err(|refusal| refusal.to_string())?;
        // An expired lock never becomes a key, but its token counts as seen.
        observe_token(record.grant.token);
        Ok(Value::new(record.encode(&mut RecordBuffer::new())))
    });
    value.unwrap_or_else(|| Err(missing("owner")))
}

fn read_clock(stored: &mut RdbReader, encoding: c_int) -> Result<(), String> {
    check_encoding(encoding)?;
    match read_number(stored, "token")? {
        0 => {}
        number => observe_token(Token::new(number).ok_or_else(|| {
            let highest = Token::MAX.number();
            format!("token {number} (0 to {highest})")
        })?),
    }
    Ok(())
}

fn check_encoding(encoding: c_int) -> Result<(), String> {
    if encoding == ENCODING {
        Ok(())
    } else {
        Err(format!(
            "stored form {encoding}, of which this version of the module knows {ENCODING} alone"
        ))
    }
}

fn read_number(stored: &mut RdbReader, name: &str) -> Result<u64, String> {
    stored.number().ok_or_else(|| missing(name))
}

fn missing(name: &str) -> String {
    format!("{name} missing, cut off or of another kind")
}
