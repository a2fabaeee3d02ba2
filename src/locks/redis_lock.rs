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

    fn load(stored: &mut RdbReader, encoding: c_int) -> Result<Value, String> {
        read_lock(stored, encoding).map_err(|reason| format!("a stored lock is refused: {reason}"))
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

    fn load_extra(stored: &mut RdbReader, encoding: c_int) -> Result<(), String> {
        read_clock(stored, encoding)
            .map_err(|reason| format!("the stored token clock is refused: {reason}"))
    }
}

fn read_lock(stored: &mut RdbReader, encoding: c_int) -> Result<Value, String> {
    check_encoding(encoding)?;
    let to_holds = |number| u32::try_from(number).ok().and_then(Holds::new);
    let most_holds = u64::from(Holds::MOST.number());
    let grant = Grant {
        token: read_number(stored, "token", Token::HIGHEST.number(), Token::new)?,
        holds: read_number(stored, "hold count", most_holds, to_holds)?,
        lease: read_number(stored, "lease", Lease::LONGEST.millis(), Lease::from_millis)?,
    };
    let value = stored.bytes(|bytes| {
        let owner = Owner::new(bytes)
            .ok_or_else(|| format!("owner of {} bytes (1 to {})", bytes.len(), Owner::LONGEST))?;
        let mut buffer = RecordBuffer::new();
        Ok(Value::new(Record { owner, grant }.encode(&mut buffer)))
    });
    let value = value.unwrap_or_else(|| Err(missing("owner")))?;
    // Even a lock that has expired by now, and never becomes a key, has used its token.
    observe_token(grant.token);
    Ok(value)
}

fn read_clock(stored: &mut RdbReader, encoding: c_int) -> Result<(), String> {
    check_encoding(encoding)?;
    match stored.number().ok_or_else(|| missing("token"))? {
        0 => {}
        number => observe_token(Token::new(number).ok_or_else(|| {
            let highest = Token::HIGHEST.number();
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

/// Reads a number of which `make` takes 1 to `most`.
fn read_number<T>(
    stored: &mut RdbReader,
    name: &str,
    most: u64,
    make: impl FnOnce(u64) -> Option<T>,
) -> Result<T, String> {
    let number = stored.number().ok_or_else(|| missing(name))?;
    make(number).ok_or_else(|| format!("{name} {number} (1 to {most})"))
}

fn missing(name: &str) -> String {
    format!("{name} missing, cut off or of another kind")
}
