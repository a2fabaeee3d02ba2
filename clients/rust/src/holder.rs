//! Who holds a lock, as the server tells it.

use redis::Value;
use std::time::Duration;

/// One holder of a lock; see [`Locks::holders`](crate::Locks::holders).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// Its name: `service:host:pid:uuid` where a client of this project made it.
    pub owner: Vec<u8>,
    /// Its fencing token.
    pub token: u64,
    /// How many times it holds the lock.
    pub holds: u32,
    /// Its lease.
    pub lease: Duration,
    /// What is left of it; none for ever.
    pub left: Option<Duration>,
    /// How long it has held the lock.
    pub held_for: Duration,
    /// How many holders it bears, itself included; none for any number.
    pub limit: Option<u32>,
    /// The id of the connection that keeps it.
    pub kept_by: Option<u64>,
}

/// The answer to `LOCK.HOLDERS`.
pub(crate) fn read(answer: &Value) -> Option<Vec<Holder>> {
    let Value::Array(holders) = answer else {
        return None;
    };
    holders.iter().map(read_one).collect()
}

fn read_one(holder: &Value) -> Option<Holder> {
    let fields: Vec<(&Value, &Value)> = holder.as_map_iter()?.collect();
    let field = |name: &str| {
        let is_it = |field: &&(&Value, &Value)| match field.0 {
            Value::BulkString(bytes) => bytes == name.as_bytes(),
            Value::SimpleString(text) => text == name,
            _ => false,
        };
        fields.iter().find(is_it).map(|field| field.1)
    };
    let number = |name: &str| match field(name)? {
        Value::Int(number) => Some(*number),
        _ => None,
    };
    let millis = |name: &str| Some(Duration::from_millis(u64::try_from(number(name)?).ok()?));
    let Value::BulkString(owner) = field("owner")? else {
        return None;
    };
    Some(Holder {
        owner: owner.clone(),
        token: u64::try_from(number("token")?).ok()?,
        holds: u32::try_from(number("holds")?).ok()?,
        lease: millis("lease-ms")?,
        left: millis("ttl-ms"),
        held_for: millis("held-ms")?,
        limit: u32::try_from(number("limit")?).ok().filter(|it| *it > 0),
        kept_by: u64::try_from(number("kept-by")?).ok().filter(|it| *it > 0),
    })
}
