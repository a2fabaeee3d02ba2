//! Parsing of the server's replies, in RESP2 and RESP3.

use redis::Value;
use std::collections::HashMap;

/// A held lock: the reply of `LOCK.INFO`.
#[allow(clippy::struct_field_names)] // as the server calls them
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) owner: Vec<u8>,
    pub(crate) token: i64,
    pub(crate) holds: i64,
    pub(crate) lease_ms: i64,
    pub(crate) ttl_ms: i64,
    pub(crate) held_ms: i64,
    pub(crate) waiters: i64,
}

/// A waiter: an element of `LOCK.WAITERS`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) owner: Vec<u8>,
    pub(crate) client_id: i64,
    pub(crate) waited_ms: i64,
    pub(crate) left_ms: i64,
    /// The session of the call; 0: none.
    pub(crate) session: i64,
    /// The name of that session, where it is known.
    pub(crate) program: Vec<u8>,
    /// No client is blocked: `client_id` is the connection that polls the session, or 0.
    pub(crate) is_queued: bool,
}

/// A session: an element of `LOCK.SESSION LIST`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) id: i64,
    pub(crate) name: Vec<u8>,
    pub(crate) client_id: i64,
}

/// A hot key: an element of `LOCK.HOTKEYS`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hot {
    pub(crate) key: Vec<u8>,
    pub(crate) waits: i64,
    pub(crate) timeouts: i64,
    pub(crate) expirations: i64,
    pub(crate) total_wait_ms: i64,
    pub(crate) max_wait_ms: i64,
}

/// The fields of `INFO`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Info(HashMap<String, String>);

impl Held {
    /// `None` when the lock is free.
    pub(crate) fn read(value: Value) -> Option<Self> {
        let fields = Fields::read(value)?;
        Some(Self {
            owner: fields.bytes("owner")?,
            token: fields.number("token")?,
            holds: fields.number("holds")?,
            lease_ms: fields.number("lease-ms")?,
            ttl_ms: fields.number("ttl-ms")?,
            held_ms: fields.number("held-ms")?,
            waiters: fields.number("waiters")?,
        })
    }
}

impl Waiter {
    pub(crate) fn read(value: Value) -> Option<Self> {
        let fields = Fields::read(value)?;
        Some(Self {
            owner: fields.bytes("owner")?,
            client_id: fields.number("client-id")?,
            waited_ms: fields.number("waited-ms")?,
            left_ms: fields.number("left-ms")?,
            // Versions before 0.3 have no sessions.
            session: fields.number("session").unwrap_or(0),
            program: Vec::new(),
            is_queued: false,
        })
    }

    /// Adds what the sessions tell of the call. Where its session is not known it counts as queued, because killing
    /// the client of a queued call would cut off a whole program.
    pub(crate) fn with_program(mut self, sessions: &[Session]) -> Self {
        if self.session != 0 {
            let session = sessions.iter().find(|session| session.id == self.session);
            self.program = session.map_or_else(Vec::new, |session| session.name.clone());
            self.is_queued = self.client_id == 0
                || session.is_none_or(|session| session.client_id == self.client_id);
        }
        self
    }
}

impl Session {
    pub(crate) fn read(value: Value) -> Option<Self> {
        let fields = Fields::read(value)?;
        Some(Self {
            id: fields.number("id")?,
            name: fields.bytes("name")?,
            client_id: fields.number("client-id")?,
        })
    }
}

impl Hot {
    pub(crate) fn read(value: Value) -> Option<Self> {
        let fields = Fields::read(value)?;
        Some(Self {
            key: fields.bytes("key")?,
            waits: fields.number("waits")?,
            timeouts: fields.number("timeouts")?,
            expirations: fields.number("expirations")?,
            total_wait_ms: fields.number("total-wait-ms")?,
            max_wait_ms: fields.number("longest-wait-ms")?,
        })
    }
}

impl Info {
    pub(crate) fn read(value: Value) -> Self {
        let text = bytes(value).unwrap_or_default();
        Self::parse(&String::from_utf8_lossy(&text))
    }

    pub(crate) fn parse(text: &str) -> Self {
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        let own = |(name, value): (&str, &str)| (name.to_owned(), value.trim_end().to_owned());
        Self(fields.map(own).collect())
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.text(name)?.parse().ok()
    }
}

/// A map in RESP3, an array of alternating names and values in RESP2.
struct Fields(HashMap<Vec<u8>, Value>);

impl Fields {
    fn read(value: Value) -> Option<Self> {
        let pairs = match value {
            Value::Map(pairs) => pairs,
            Value::Array(flat) => {
                let mut flat = flat.into_iter();
                let mut pairs = Vec::new();
                while let (Some(name), Some(value)) = (flat.next(), flat.next()) {
                    pairs.push((name, value));
                }
                pairs
            }
            _ => return None,
        };
        let named = |(name, value)| Some((bytes(name)?, value));
        Some(Self(pairs.into_iter().filter_map(named).collect()))
    }

    fn number(&self, name: &str) -> Option<i64> {
        match self.0.get(name.as_bytes())? {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }

    fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        bytes(self.0.get(name.as_bytes())?.clone())
    }
}

/// The bytes of any kind of string.
pub(crate) fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.into_bytes()),
        _ => None,
    }
}

/// The elements of an array; empty for anything else.
pub(crate) fn items(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) | Value::Set(items) => items,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Hot, Info};
    use redis::Value;

    #[test]
    fn a_map_is_parsed_alike_in_both_protocols() {
        let name = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let pairs = vec![
            (name("key"), name("k")),
            (name("waits"), Value::Int(3)),
            (name("timeouts"), Value::Int(1)),
            (name("expirations"), Value::Int(0)),
            (name("total-wait-ms"), Value::Int(90)),
            (name("longest-wait-ms"), Value::Int(60)),
        ];
        let flat = pairs.clone().into_iter().flat_map(|(n, v)| [n, v]);
        let hot = Hot::read(Value::Array(flat.collect())).expect("RESP2");
        assert_eq!(Hot::read(Value::Map(pairs)), Some(hot.clone()));
        assert_eq!((hot.waits, hot.timeouts, hot.max_wait_ms), (3, 1, 60));
        assert_eq!(Hot::read(Value::Nil), None);
    }

    #[test]
    fn the_fields_of_info_are_parsed() {
        let info =
            Info::parse("# lock\r\nlock_held:12\r\nlock_last_token:7\r\n\r\nrole:master\r\n");
        assert_eq!(info.number("lock_held"), Some(12));
        assert_eq!(info.text("role"), Some("master"));
        assert_eq!(info.number("role"), None);
    }
}
