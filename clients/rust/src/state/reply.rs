//! What the server's replies say.

use super::Time;
use crate::error::Error;
use redis::Value;
use std::time::Duration;

/// The value or the error that a command returned.
pub(crate) type Answer = Result<Value, Error>;

/// The answer to one command, or to the last try of it.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) value: Answer,
    /// The node that was asked.
    pub(crate) node: usize,
    /// When the command was sent.
    pub(crate) sent: Time,
    /// An earlier try had no reply.
    pub(crate) was_open: bool,
}

impl Reply {
    pub(crate) fn new(value: Answer, node: usize, sent: Time) -> Self {
        Self {
            value,
            node,
            sent,
            was_open: false,
        }
    }

    pub(crate) fn fault(&self) -> Option<&Error> {
        self.value.as_ref().err()
    }

    /// The token and the lease in the reply of ACQUIRE and RENEW.
    pub(crate) fn grant(&self) -> Option<(u64, Duration)> {
        match list(self.value.as_ref().ok()?) {
            [token, _, _, lease, ..] => Some((number(token), Duration::from_millis(number(lease)))),
            _ => None,
        }
    }
}

/// A number; 0 for anything else, and for one below 0.
pub(crate) fn number(value: &Value) -> u64 {
    match value {
        Value::Int(number) => u64::try_from(*number).unwrap_or(0),
        _ => 0,
    }
}

pub(super) fn bytes(value: &Value) -> &[u8] {
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
    value.as_sequence().unwrap_or_default()
}

/// A field of a map, which RESP2 sends as a flat array.
pub(super) fn field<'a>(value: &'a Value, name: &str) -> &'a Value {
    let mut fields = value.as_map_iter().into_iter().flatten();
    let found = fields.find(|(key, _)| bytes(key) == name.as_bytes());
    found.map_or(&Value::Nil, |(_, value)| value)
}
