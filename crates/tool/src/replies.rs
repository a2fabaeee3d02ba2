//! Parses the server's replies, in RESP2 and RESP3.

use redis::{FromRedisValue, Value, from_redis_value_ref};
use std::collections::{BTreeMap, HashMap};

/// Names and values, such as those of `INFO` and `CONFIG GET`.
pub type Names = BTreeMap<String, String>;

/// Declares a struct that is read from a reply. Its fields have the names of the reply's fields, with `_` for `-`.
#[macro_export]
macro_rules! record {
    ($(#[$about:meta])* $public:vis struct $name:ident { $($(#[$doc:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        $public struct $name {
            $($(#[$doc])* $public $field: $kind,)*
        }

        impl $name {
            /// Reads a reply; `None` if the reply lacks a field (of a free lock, for example).
            $public fn read(value: &$crate::Value) -> Option<Self> {
                let reply = $crate::Reply::read(value)?;
                Some(Self {
                    $($field: reply.field(&stringify!($field).replace('_', "-"))?,)*
                })
            }
        }
    };
}

/// A reply with named fields: a map in RESP3, an array of alternating names and values in RESP2.
pub struct Reply(HashMap<String, Value>);

impl Reply {
    /// Reads a reply; `None` if it has no fields.
    pub fn read(value: &Value) -> Option<Self> {
        from_redis_value_ref(value).ok().map(Self)
    }

    /// A field of this type.
    pub fn field<T: FromRedisValue>(&self, name: &str) -> Option<T> {
        from_redis_value_ref(self.0.get(name)?).ok()
    }

    /// The elements of a field that is an array.
    pub fn items(&self, name: &str) -> &[Value] {
        self.0.get(name).map(items).unwrap_or_default()
    }
}

/// The fields of a reply as text; empty if it has none.
pub fn names(value: &Value) -> Names {
    let fields = Reply::read(value).into_iter().flat_map(|reply| reply.0);
    fields.map(|(name, value)| (name, text(&value))).collect()
}

/// The bytes of any kind of string.
pub fn bytes(value: &Value) -> Option<Vec<u8>> {
    from_redis_value_ref(value).ok()
}

/// The text of any kind of string or number; empty for anything else.
pub fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        value => from_redis_value_ref(value).unwrap_or_default(),
    }
}

/// The elements of an array; empty for anything else.
pub fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) | Value::Set(items) => items,
        _ => &[],
    }
}

/// The lines `name:value` of `INFO` and the like.
pub fn lines(text: &str) -> Names {
    pairs(text.lines(), ':')
}

/// Parses names and values that are separated by this character.
pub fn pairs<'a>(all: impl Iterator<Item = &'a str>, between: char) -> Names {
    let pairs = all.filter_map(|pair| pair.trim_end().split_once(between));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// A field that is a number.
pub fn number(names: &Names, name: &str) -> Option<i64> {
    names.get(name)?.parse().ok()
}

/// Which server it is, by its `INFO`, and its version.
pub fn server_version(info: &Names) -> Option<(&'static str, &str)> {
    let names = [("Valkey", "valkey_version"), ("Redis", "redis_version")];
    let mut known = names.iter();
    known.find_map(|(name, field)| Some((*name, info.get(*field)?.as_str())))
}

/// A line of `CLUSTER NODES`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNode {
    /// The host; empty if the node does not know its own address.
    pub host: String,
    /// The port for clients.
    pub port: u16,
    /// True unless the cluster considers the node down.
    pub is_up: bool,
    /// True for a primary with slots.
    pub has_slots: bool,
}

/// The nodes in a reply of `CLUSTER NODES`.
pub fn cluster_nodes(text: &str) -> Vec<ClusterNode> {
    let node = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let address = fields.get(1)?.split(['@', ',']).next()?;
        let (host, port) = address.rsplit_once(':')?;
        let flags: Vec<_> = fields.get(2)?.split(',').collect();
        let down = ["fail", "fail?", "noaddr", "handshake"];
        Some(ClusterNode {
            host: host.to_owned(),
            port: port.parse().ok()?,
            is_up: !flags.iter().any(|flag| down.contains(flag)),
            has_slots: flags.contains(&"master") && fields.len() > 8,
        })
    };
    text.lines().filter_map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::{Reply, cluster_nodes, lines, number};
    use redis::Value;

    #[test]
    fn fields_are_alike_in_both_protocols() {
        let name = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let pairs = vec![(name("key"), name("k")), (name("waits"), Value::Int(3))];
        let flat = pairs.clone().into_iter().flat_map(|(n, v)| [n, v]);
        for reply in [Value::Array(flat.collect()), Value::Map(pairs)] {
            let reply = Reply::read(&reply).expect("fields");
            assert_eq!(reply.field("key"), Some(b"k".to_vec()));
            assert_eq!(reply.field::<i64>("waits"), Some(3));
            assert_eq!(reply.field::<i64>("key"), None);
        }
        assert!(Reply::read(&Value::Int(1)).is_none());
    }

    #[test]
    fn lines_keep_colons_in_their_values() {
        let info = lines("# lock\r\nlock_held:12\r\n\r\nexecutable:C:/x\r\nrole:master\r\n");
        assert_eq!(number(&info, "lock_held"), Some(12));
        assert_eq!(number(&info, "role"), None);
        assert_eq!(info["executable"], "C:/x");
    }

    #[test]
    fn nodes_are_told_apart() {
        let text = "a1 10.0.0.1:7001@17001,name myself,master - 0 1 2 connected 0-5\n\
                    a2 10.0.0.2:7001@17001 slave,fail a1 0 1 2 disconnected\n\
                    a3 :7003@17003 master - 0 1 2 connected 0 2 [3->-07c4]\n\
                    a4 10.0.0.4:7001@17001 master - 0 1 2 connected\n\n";
        let nodes = cluster_nodes(text);
        let found = nodes
            .iter()
            .map(|n| (n.host.as_str(), n.is_up, n.has_slots));
        let expected = [
            ("10.0.0.1", true, true),
            ("10.0.0.2", false, false),
            ("", true, true),
            ("10.0.0.4", true, false),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}
