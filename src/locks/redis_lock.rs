//! The server's data type `RedisLock`: saves, loads and rewrites locks, and reports lost ones.
//!
//! This file implements version 1 of the stored form. The core's `stored.rs` describes the fields of a lock. The token
//! clock is stored along with the keys, as one number.

use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

use redis_lock_core::{
    Deadline, EffectBuffer, Holder, HolderSet, Limit, STORED_FORM, STORED_MARK, StoredHolder, Token,
};

use super::{effect, grant_end, last_token, observe_token};
use crate::server::{
    AofWriter, Context, DataType, Digest, Large, Lost, RdbReader, RdbWriter, Text, TypeHandle,
    Value, ValueRef,
};

const ENCODING: c_int = 1;

static HANDLE: TypeHandle = TypeHandle::new();

/// A handler that takes the database and the key of a lost lock.
pub(crate) type OnLoss = fn(Context<'_>, i32, &[u8]);

static ON_LOSS: OnceLock<OnLoss> = OnceLock::new();

pub(super) fn on_loss(handler: OnLoss) {
    ON_LOSS.get_or_init(|| handler);
}

/// The data type of a held lock. Its value is the record of an exclusive lock, or the holders of a shared lock.
pub(crate) struct RedisLock;

impl RedisLock {
    /// Decodes the holder of an exclusive lock from its value and the expiry of its key.
    pub(super) fn holder(record: &[u8], expiry: Deadline) -> Holder<'_> {
        Holder::read(record, Limit::ONE, expiry).expect("a value that this module encoded")
    }
}

/// Decodes the holder without its deadline: the server stores the expiry of the key itself.
fn stored_holder(record: &[u8]) -> Holder<'_> {
    RedisLock::holder(record, Deadline::Never)
}

impl Large for HolderSet {
    fn entries(&self) -> usize {
        self.count()
    }

    fn memory(&self) -> usize {
        HolderSet::memory(self)
    }
}

impl DataType for RedisLock {
    type Large = HolderSet;

    const NAME: &'static CStr = c"RedisLock";
    const ENCODING: c_int = ENCODING;

    fn handle() -> &'static TypeHandle {
        &HANDLE
    }

    fn save(value: ValueRef<'_, HolderSet>, out: &mut RdbWriter) {
        match value {
            ValueRef::Bytes(record) => save_grant(&stored_holder(record).into(), out),
            ValueRef::Large(set) => {
                out.number(STORED_MARK);
                out.number(STORED_FORM);
                out.number(set.count() as u64);
                for holder in set.iter() {
                    let stored = StoredHolder::from(holder);
                    out.number(stored.limit);
                    out.number(stored.end_ms.unwrap_or(Deadline::LAST));
                    save_grant(&stored, out);
                }
            }
        }
    }

    fn load(stored: &mut RdbReader, encoding: c_int) -> Result<Value<HolderSet>, String> {
        read_lock(stored, encoding).map_err(|reason| format!("a stored lock is refused: {reason}"))
    }

    fn rewrite(key: Text<'_>, value: ValueRef<'_, HolderSet>, out: &mut AofWriter) {
        match value {
            ValueRef::Bytes(record) => {
                let mut buffer = EffectBuffer::new();
                let effect = stored_holder(record).effect(false, &mut buffer);
                effect::rewrite(key, effect.bytes(), out);
            }
            ValueRef::Large(set) => {
                let seen = last_token().unwrap_or(Token::MAX);
                for change in set.rewrite() {
                    let mut buffer = EffectBuffer::new();
                    effect::rewrite(key, change.effect(seen, false, &mut buffer), out);
                }
            }
        }
    }

    fn lost(lost: &Lost<'_, HolderSet>) {
        if grant_end::is_releasing() {
            // The running release serves the line itself.
            return;
        }
        match lost.value() {
            ValueRef::Bytes(record) => {
                grant_end::lost(lost, std::iter::once(stored_holder(record).grant.token));
            }
            ValueRef::Large(set) => {
                grant_end::lost(lost, set.iter().map(|holder| holder.grant.token));
            }
        }
        if let Some(handler) = ON_LOSS.get() {
            handler(lost.context(), lost.database(), lost.key());
        }
    }

    fn digest(value: ValueRef<'_, HolderSet>, out: &mut Digest) {
        match value {
            ValueRef::Bytes(record) => digest_grant(&stored_holder(record), out),
            ValueRef::Large(set) => {
                for holder in set.iter() {
                    digest_grant(&holder, out);
                    out.number(i64::from(holder.limit.number()));
                    out.number(holder.end.millis().cast_signed());
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

fn save_grant(stored: &StoredHolder<'_>, out: &mut RdbWriter) {
    out.number(stored.token);
    out.number(stored.holds);
    out.number(stored.lease_ms);
    out.bytes(stored.owner);
}

fn digest_grant(Holder { owner, grant, .. }: &Holder<'_>, out: &mut Digest) {
    out.bytes(owner.bytes());
    out.number(grant.token.number().cast_signed());
    out.number(i64::from(grant.holds.number()));
    out.number(grant.lease.millis().cast_signed());
}

fn read_lock(stored: &mut RdbReader, encoding: c_int) -> Result<Value<HolderSet>, String> {
    check_encoding(encoding)?;
    let token = read_number(stored, "token")?;
    if token == STORED_MARK {
        return read_shared(stored);
    }
    let limit = Limit::ONE.number().into();
    read_holder(stored, limit, None, token, |holder| {
        observe_token(holder.grant.token);
        let mut buffer = EffectBuffer::new();
        Ok(Value::new(holder.effect(false, &mut buffer).record()))
    })
}

fn read_shared(stored: &mut RdbReader) -> Result<Value<HolderSet>, String> {
    let form = read_number(stored, "format of the holders")?;
    if form != STORED_FORM {
        return Err(format!(
            "holders in format {form} (this version of the module reads only format {STORED_FORM})"
        ));
    }
    let (mut set, mut highest) = (None, None);
    for _ in 0..read_number(stored, "number of holders")? {
        let limit = read_number(stored, "limit")?;
        let end_ms = read_number(stored, "end of a lease")?;
        let token = read_number(stored, "token")?;
        read_holder(stored, limit, Some(end_ms), token, |holder| {
            highest = highest.max(Some(holder.grant.token));
            HolderSet::add_stored(&mut set, &holder).map_err(|refusal| refusal.to_string())
        })?;
    }
    let set = HolderSet::finish_stored(set).map_err(|refusal| refusal.to_string())?;
    // Only now, because the tokens of a refused lock must not raise the token clock.
    if let Some(highest) = highest {
        observe_token(highest);
    }
    Ok(Value::large(set))
}

/// Reads the fields after the token, and passes the holder to `use_holder`, which records the token as seen. That holds
/// even if the lease has ended, so that the lock never becomes a key.
fn read_holder<T>(
    stored: &mut RdbReader,
    limit: u64,
    end_ms: Option<u64>,
    token: u64,
    use_holder: impl FnOnce(Holder<'_>) -> Result<T, String>,
) -> Result<T, String> {
    let holds = read_number(stored, "hold count")?;
    let lease_ms = read_number(stored, "lease")?;
    let value = stored.bytes(|owner| {
        let fields = StoredHolder {
            limit,
            end_ms,
            token,
            holds,
            lease_ms,
            owner,
        };
        let holder = Holder::try_from(fields).map_err(|refusal| refusal.to_string())?;
        use_holder(holder)
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
            "format {encoding} (this version of the module reads only format {ENCODING})"
        ))
    }
}

fn read_number(stored: &mut RdbReader, name: &str) -> Result<u64, String> {
    stored.number().ok_or_else(|| missing(name))
}

fn missing(name: &str) -> String {
    format!("{name} missing, truncated or of the wrong type")
}
