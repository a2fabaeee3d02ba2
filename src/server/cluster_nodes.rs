//! Parses `CLUSTER NODES`: which node serves a slot, and how a client is redirected to it.

use std::cell::OnceCell;
use std::ffi::CString;

use super::{Context, Text};

/// The output of `CLUSTER NODES`, which is requested at most once because it may be long.
#[derive(Default)]
pub(crate) struct NodesCache(OnceCell<Option<String>>);

impl NodesCache {
    pub(crate) fn get(&self, context: Context<'_>) -> Option<&str> {
        self.0.get_or_init(|| context.cluster_nodes()).as_deref()
    }

    /// Returns true if this node imports the slot of this key, key by key. It then serves the keys that it already has
    /// to clients that were redirected here.
    pub(crate) fn imports(&self, context: Context<'_>, name: Text<'_>) -> bool {
        let known = self.get(context).zip(context.cluster_slot(name));
        known.is_some_and(|(nodes, slot)| imports(nodes, slot))
    }
}

/// How a redirection names a node, by the setting `cluster-preferred-endpoint-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// By its address.
    Ip,
    /// By its host name.
    Hostname,
    /// Not at all. The client uses the host that it is connected to, with the port of the redirection.
    Unknown,
}

impl Endpoint {
    pub(crate) fn of_setting(value: &str) -> Self {
        match value {
            "hostname" => Self::Hostname,
            "unknown-endpoint" => Self::Unknown,
            _ => Self::Ip,
        }
    }
}

/// The node that this node would redirect a command on a missing key to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// `MOVED`, or `ASK` while the slot migrates.
    kind: &'static str,
    slot: u16,
    pub(crate) id: String,
    ip: String,
    port: String,
    hostname: String,
}

/// The address of a node for one client, if it differs from the address that this node knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ForClient {
    pub(crate) ip: Option<String>,
    pub(crate) port: Option<u16>,
}

impl Target {
    fn of(node: &Node<'_>, kind: &'static str, slot: u16) -> Self {
        Self {
            kind,
            slot,
            id: node.id.to_owned(),
            ip: node.ip.to_owned(),
            port: node.port.to_owned(),
            hostname: node.hostname.to_owned(),
        }
    }

    /// The error for a client.
    pub(crate) fn error(&self, endpoint: Endpoint, client: &ForClient) -> CString {
        let host = match endpoint {
            Endpoint::Ip => client.ip.as_deref().unwrap_or(&self.ip),
            Endpoint::Hostname if self.hostname.is_empty() => "?",
            Endpoint::Hostname => &self.hostname,
            Endpoint::Unknown => "",
        };
        let port = client.port.map(|port| port.to_string());
        let port = port.as_deref().unwrap_or(&self.port);
        let Self { kind, slot, .. } = self;
        CString::new(format!("{kind} {slot} {host}:{port}")).unwrap_or_default()
    }
}

/// The redirection of a command on a missing key of `slot`, by this node's `CLUSTER NODES`.
pub(crate) fn target(nodes: &str, slot: u16) -> Option<Target> {
    let nodes: Vec<_> = nodes.lines().filter_map(Node::parse).collect();
    let owner = nodes.iter().find(|node| node.serves(slot))?;
    if owner.myself {
        let target = owner.migrates_to(slot)?;
        let target = nodes.iter().find(|node| node.id == target)?;
        Some(Target::of(target, "ASK", slot))
    } else {
        Some(Target::of(owner, "MOVED", slot))
    }
}

/// The error for a slot that no node serves.
pub(crate) fn unserved() -> CString {
    c"CLUSTERDOWN Hash slot not served".to_owned()
}

/// Returns true if this node imports `slot` key by key.
fn imports(nodes: &str, slot: u16) -> bool {
    let mut nodes = nodes.lines().filter_map(Node::parse);
    nodes.any(|node| node.myself && node.imports(slot))
}

/// The error while the whole cluster is down.
pub(crate) fn down() -> CString {
    c"CLUSTERDOWN The cluster is down".to_owned()
}

struct Node<'a> {
    id: &'a str,
    ip: &'a str,
    port: &'a str,
    hostname: &'a str,
    myself: bool,
    slots: Vec<&'a str>,
}

impl<'a> Node<'a> {
    /// `id ip:port@bus[,hostname[,name=value…]] flags primary ping pong epoch link slot…`
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        let id = fields.next()?;
        let (address, more) = fields.next()?.split_once('@')?;
        let (ip, port) = address.rsplit_once(':')?;
        let hostname = more.split(',').nth(1).unwrap_or_default();
        let myself = fields.next()?.split(',').any(|flag| flag == "myself");
        Some(Self {
            id,
            ip,
            port,
            hostname,
            myself,
            slots: fields.skip(5).collect(),
        })
    }

    fn serves(&self, slot: u16) -> bool {
        self.slots.iter().any(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            match (first.parse::<u16>(), last.parse::<u16>()) {
                (Ok(first), Ok(last)) => (first..=last).contains(&slot),
                _ => false, // a migrating slot: [slot->-node] or [slot-<-node]
            }
        })
    }

    fn migrates_to(&self, slot: u16) -> Option<&'a str> {
        self.slots.iter().find_map(|migrating| {
            let migrating = migrating.strip_prefix('[')?.strip_suffix(']')?;
            let (number, target) = migrating.split_once("->-")?;
            (number.parse() == Ok(slot)).then_some(target)
        })
    }

    fn imports(&self, slot: u16) -> bool {
        let start = format!("[{slot}-<-");
        self.slots.iter().any(|slot| slot.starts_with(&start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "\
        aaa 127.0.0.1:7001@17001,host-1 myself,master - 0 0 1 connected 0-99 200 [50->-bbb] [150-<-bbb]\n\
        bbb 127.0.0.1:7002@17002 master - 0 1795000000000 2 connected 100-199\n\
        ccc 127.0.0.1:7003@17003 slave aaa 0 1795000000000 1 connected\n";

    fn redirection(nodes: &str, slot: u16, endpoint: Endpoint) -> CString {
        target(nodes, slot).map_or_else(unserved, |target| {
            target.error(endpoint, &ForClient::default())
        })
    }

    #[test]
    fn a_redirection_has_the_address_and_port_for_its_client() {
        let target = target(NODES, 100).expect("a node");
        let client = ForClient {
            ip: Some("10.0.0.7".to_owned()),
            port: Some(7102),
        };
        for (endpoint, error) in [
            (Endpoint::Ip, "MOVED 100 10.0.0.7:7102"),
            (Endpoint::Hostname, "MOVED 100 ?:7102"),
            (Endpoint::Unknown, "MOVED 100 :7102"),
        ] {
            assert_eq!(target.error(endpoint, &client).to_str(), Ok(error));
        }
    }

    #[test]
    fn a_waiter_gets_the_redirection_of_a_command() {
        for (slot, error) in [
            (50, "ASK 50 127.0.0.1:7002"),
            (100, "MOVED 100 127.0.0.1:7002"),
            (150, "MOVED 150 127.0.0.1:7002"),
            (199, "MOVED 199 127.0.0.1:7002"),
            (300, "CLUSTERDOWN Hash slot not served"),
        ] {
            assert_eq!(redirection(NODES, slot, Endpoint::Ip).to_str(), Ok(error));
        }
    }

    #[test]
    fn a_node_is_named_as_the_setting_says() {
        const NAMED: &str = "\
            aaa ::1:7001@17001,host-1,shard-id=1 master - 0 0 1 connected 1\n\
            bbb ::1:7002@17002,,shard-id=2 master - 0 0 2 connected 2\n";
        for (slot, setting, error) in [
            (1, "ip", "MOVED 1 ::1:7001"),
            (1, "hostname", "MOVED 1 host-1:7001"),
            (1, "unknown-endpoint", "MOVED 1 :7001"),
            (2, "hostname", "MOVED 2 ?:7002"),
            (2, "something else", "MOVED 2 ::1:7002"),
        ] {
            let endpoint = Endpoint::of_setting(setting);
            assert_eq!(redirection(NAMED, slot, endpoint).to_str(), Ok(error));
        }
    }

    #[test]
    fn an_imported_slot_is_recognised() {
        for (slot, imported) in [(150, true), (15, false), (50, false), (0, false)] {
            assert_eq!(imports(NODES, slot), imported, "{slot}");
        }
    }

    #[test]
    fn text_that_is_not_a_list_of_nodes_has_no_slots() {
        for text in [
            "",
            "\n",
            "one two",
            "ERR no cluster",
            "a b c d e f g h [1->-",
        ] {
            assert_eq!(
                redirection(text, 1, Endpoint::Ip).to_str(),
                Ok("CLUSTERDOWN Hash slot not served")
            );
        }
    }
}
