//! What the server's replies say.

use crate::error::Error;
use redis::Value;
use std::time::Duration;

/// The answer to one command.
pub(crate) type Reply = Result<Value, Error>;

/// The token and the lease in the reply of ACQUIRE and RENEW.
pub(crate) fn grant_in(reply: &Reply) -> Option<(u64, Duration)> {
    match list(reply.as_ref().ok()?) {
        [token, _, _, lease, ..] => Some((number(token), Duration::from_millis(number(lease)))),
        _ => None,
    }
}

/// A number; 0 for anything else, and for one below 0.
pub(crate) fn number(value: &Value) -> u64 {
    match value {
        Value::Int(number) => u64::try_from(*number).unwrap_or(0),
        _ => 0,
    }
}

pub(crate) fn bytes(value: &Value) -> &[u8] {
    match value {
        Value::BulkString(bytes) => bytes,
        Value::SimpleString(text) => text.as_bytes(),
        _ => &[],
    }
}

pub(crate) fn text(value: &Value) -> String {
    String::from_utf8_lossy(bytes(value)).into_owned()
}

pub(crate) fn list(value: &Value) -> &[Value] {
    match value {
        Value::Array(parts) => parts,
        _ => &[],
    }
}

/// A field of a map, which RESP2 sends as a flat array.
pub(crate) fn field<'a>(value: &'a Value, name: &str) -> &'a Value {
    let is_it = |key: &Value| bytes(key) == name.as_bytes();
    let found = match value {
        Value::Map(pairs) => pairs.iter().find(|(key, _)| is_it(key)).map(|(_, it)| it),
        _ => list(value)
            .chunks_exact(2)
            .find(|pair| is_it(&pair[0]))
            .map(|pair| &pair[1]),
    };
    found.unwrap_or(&Value::Nil)
}
