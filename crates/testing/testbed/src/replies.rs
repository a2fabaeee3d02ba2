//! The module's own replies, read with nothing left over.

use super::talk::Expect;
use redis::Value;

/// The reply of `LOCK.ACQUIRE` and `LOCK.RENEW`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The fencing token.
    pub token: i64,
    /// Whose grant it is.
    pub owner: Vec<u8>,
    /// The hold count.
    pub holds: i64,
    /// The remembered lease in milliseconds.
    pub lease: i64,
    /// The limit in force (0: none), where the call named one.
    pub limit: Option<i64>,
}

impl TryFrom<Value> for Grant {
    type Error = String;

    /// Takes exactly the shape of the contract: integer, bulk string, integer, integer, and perhaps one
    /// more integer.
    fn try_from(value: Value) -> Result<Self, String> {
        use Value::{Array, BulkString, Int};
        let grant = match &value {
            Array(parts) => match parts.as_slice() {
                [
                    Int(token),
                    BulkString(owner),
                    Int(holds),
                    Int(lease),
                    rest @ ..,
                ] => {
                    let limit = match rest {
                        [] => Some(None),
                        [Int(limit)] => Some(Some(*limit)),
                        _ => None,
                    };
                    limit.map(|limit| Self {
                        token: *token,
                        owner: owner.clone(),
                        holds: *holds,
                        lease: *lease,
                        limit,
                    })
                }
                _ => None,
            },
            _ => None,
        };
        grant.ok_or_else(|| format!("a grant expected, not {value:?}"))
    }
}

/// The reply of `LOCK.INFO` on a held lock, without a field more or less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockInfo {
    /// Whose lock it is.
    pub owner: Vec<u8>,
    /// The fencing token.
    pub token: i64,
    /// The hold count.
    pub holds: i64,
    /// The remembered lease in milliseconds.
    pub lease_ms: i64,
    /// The time left of the lease; -1 if it never ends.
    pub ttl_ms: i64,
    /// How long this grant has stood.
    pub held_ms: i64,
    /// How many calls wait.
    pub waiters: i64,
    /// How many holders there are.
    pub holders: i64,
    /// The smallest limit of the holders; 0 when none has one.
    pub limit: i64,
}

impl TryFrom<Value> for LockInfo {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        if !matches!(value, Value::Map(_) | Value::Array(_)) {
            return Err(format!("a lock's fields expected, not {value:?}"));
        }
        let mut fields = value.fields();
        let mut take = |name: &str| {
            fields
                .remove(name)
                .ok_or_else(|| format!("no field {name}"))
        };
        let info = Self {
            owner: take("owner")?.bytes(),
            token: take("token")?.int(),
            holds: take("holds")?.int(),
            lease_ms: take("lease-ms")?.int(),
            ttl_ms: take("ttl-ms")?.int(),
            held_ms: take("held-ms")?.int(),
            waiters: take("waiters")?.int(),
            holders: take("holders")?.int(),
            limit: take("limit")?.int(),
        };
        if fields.is_empty() {
            Ok(info)
        } else {
            Err(format!("more fields: {fields:?}"))
        }
    }
}
