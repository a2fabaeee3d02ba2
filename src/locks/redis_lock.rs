//! The data type `RedisLock`: its stored form, version 1.
//!
//! A lock of limit 1 is stored as token, hold count, lease and owner; its deadline is the key's expiry,
//! which the server stores itself. The shares of every other lock are stored as
//! `redis_lock_core::sharing` says, with the end of each. The token clock is stored beside the keys, as one
//! number.

use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

use redis_lock_core::sharing::{
    STORED_FORM, STORED_MARK, ShareEffectBuffer, ShareFields, Shares, StoredShares,
};
use redis_lock_core::{Deadline, EffectBuffer, Fields, Held, Record, RecordBuffer, Token};

use super::{effect, grant_end, last_token, observe_token};
use crate::server::{
    AofWriter, Context, DataType, Digest, Large, Lost, RdbReader, RdbWriter, Stored, Text,
    TypeHandle, Value,
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

impl Large for Shares {
    fn entries(&self) -> usize {
        self.count()
    }

    fn memory(&self) -> usize {
        Shares::memory(self)
    }
}

impl DataType for RedisLock {
    type Large = Shares;

    const NAME: &'static CStr = c"RedisLock";
    const ENCODING: c_int = ENCODING;

    fn handle() -> &'static TypeHandle {
        &HANDLE
    }

    fn save(value: Stored<'_, Shares>, out: &mut RdbWriter) {
        match value {
            Stored::Bytes(value) => save_fields(&Fields::from(Self::record(value)), out),
            Stored::Large(shares) => {
                out.number(STORED_MARK);
                out.number(STORED_FORM);
                out.number(shares.count() as u64);
                for share in shares.iter() {
                    let fields = ShareFields::from(share);
                    out.number(fields.limit);
                    out.number(fields.end_ms);
                    save_fields(&fields.record, out);
                }
            }
        }
    }

    fn load(stored: &mut RdbReader, encoding: c_int) -> Result<Value<Shares>, String> {
        read_lock(stored, encoding).map_err(|reason| format!("a stored lock is refused: {reason}"))
    }

    fn rewrite(key: Text<'_>, value: Stored<'_, Shares>, out: &mut AofWriter) {
        match value {
            Stored::Bytes(value) => {
                let Record { owner, grant } = Self::record(value);
                let held = Held {
                    owner,
                    grant,
                    deadline: Deadline::Never, // the server writes the expiry after it
                };
                effect::rewrite(key, held.effect(&mut EffectBuffer::new()).bytes(), out);
            }
            Stored::Large(shares) => {
                let seen = last_token().unwrap_or(Token::MAX);
                for change in shares.rewrite() {
                    let mut buffer = ShareEffectBuffer::new();
                    effect::rewrite(key, change.effect(seen, &mut buffer), out);
                }
            }
        }
    }

    fn lost(lost: &Lost<'_, Shares>) {
        if grant_end::is_releasing() {
            // The release serves the queue itself.
            return;
        }
        match lost.value() {
            Stored::Bytes(value) => {
                let token = Self::record(value).grant.token;
                grant_end::lost(lost, std::iter::once(token));
            }
            Stored::Large(shares) => {
                grant_end::lost(lost, shares.iter().map(|share| share.grant.token));
            }
        }
        if let Some(handler) = ON_LOSS.get() {
            handler(lost.context(), lost.database(), lost.key());
        }
    }

    fn digest(value: Stored<'_, Shares>, out: &mut Digest) {
        match value {
            Stored::Bytes(value) => digest_record(Self::record(value), out),
            Stored::Large(shares) => {
                for share in shares.iter() {
                    let (owner, grant) = (share.owner, share.grant);
                    digest_record(Record { owner, grant }, out);
                    out.number(i64::from(share.limit.number()));
                    out.number(share.end.cast_signed());
                }
            }
        }
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

fn save_fields(fields: &Fields<'_>, out: &mut RdbWriter) {
    out.number(fields.token);
    out.number(fields.holds);
    out.number(fields.lease_ms);
    out.bytes(fields.owner);
}

fn digest_record(Record { owner, grant }: Record<'_>, out: &mut Digest) {
    out.bytes(owner.bytes());
    out.number(grant.token.number().cast_signed());
    out.number(i64::from(grant.holds.number()));
    out.number(grant.lease.millis().cast_signed());
}

fn read_lock(stored: &mut RdbReader, encoding: c_int) -> Result<Value<Shares>, String> {
    check_encoding(encoding)?;
    let token = read_number(stored, "token")?;
    if token == STORED_MARK {
        return read_shares(stored);
    }
    read_fields(stored, token, |fields| {
        let record = Record::try_from(fields).map_err(|refusal| refusal.to_string())?;
        // An expired lock never becomes a key, but its token counts as seen.
        observe_token(record.grant.token);
        Ok(Value::new(record.encode(&mut RecordBuffer::new())))
    })
}

fn read_shares(stored: &mut RdbReader) -> Result<Value<Shares>, String> {
    let form = read_number(stored, "form of the shares")?;
    if form != STORED_FORM {
        return Err(format!(
            "form {form} of shares, of which this version of the module knows {STORED_FORM} alone"
        ));
    }
    let mut shares = StoredShares::new();
    for _ in 0..read_number(stored, "number of holders")? {
        let limit = read_number(stored, "limit")?;
        let end_ms = read_number(stored, "end of a lease")?;
        let token = read_number(stored, "token")?;
        read_fields(stored, token, |record| {
            let fields = ShareFields {
                record,
                limit,
                end_ms,
            };
            let token = shares.add(fields).map_err(|refusal| refusal.to_string())?;
            observe_token(token);
            Ok(())
        })?;
    }
    let shares = shares.finish().map_err(|refusal| refusal.to_string())?;
    Ok(Value::large(shares))
}

/// The fields of a grant after its token.
fn read_fields<T>(
    stored: &mut RdbReader,
    token: u64,
    read: impl FnOnce(Fields<'_>) -> Result<T, String>,
) -> Result<T, String> {
    let holds = read_number(stored, "hold count")?;
    let lease_ms = read_number(stored, "lease")?;
    let value = stored.bytes(|owner| {
        read(Fields {
            token,
            holds,
            lease_ms,
            owner,
        })
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
