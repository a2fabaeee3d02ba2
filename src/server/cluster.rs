//! The slots, ports and addresses of cluster nodes.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use redis_module::raw;

use super::api::{OK, api};
use super::call::{OwnedText, Reply};
use super::optional::Optional;
use super::{Context, Text};

/// The known client ports of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ports {
    pub(crate) plain: Option<u16>,
    pub(crate) tls: Option<u16>,
}

impl Context<'_> {
    /// The slot of a key, on a cluster node.
    pub(crate) fn cluster_slot(self, key: Text<'_>) -> Option<u16> {
        let keyslot = OwnedText::new(b"KEYSLOT");
        let arguments = [keyslot.text(), key];
        self.call(c"CLUSTER", c"Ev", &arguments, |reply| {
            u16::try_from(reply.integer()?).ok()
        })
    }

    /// The output of `CLUSTER NODES`, on a cluster node.
    pub(crate) fn cluster_nodes(self) -> Option<String> {
        let nodes = OwnedText::new(b"NODES");
        self.call(c"CLUSTER", c"Ev", &[nodes.text()], Reply::text)
    }

    /// The ports of the node with this id. `CLUSTER NODES` does not suffice, because it contains only one port, whether
    /// or not a client uses TLS.
    pub(crate) fn cluster_ports(self, id: &str) -> Ports {
        let shards = OwnedText::new(b"SHARDS");
        self.call(c"CLUSTER", c"Ev", &[shards.text()], |shards| {
            let mut nodes = shards
                .items()
                .filter_map(|shard| shard.field("nodes"))
                .flat_map(|nodes| nodes.items().collect::<Vec<_>>());
            let id_of = |node: &Reply| node.field("id").and_then(|id| id.text());
            let node = nodes.find(|node| id_of(node).as_deref() == Some(id));
            let port = |name| {
                let number = node.as_ref()?.field(name)?.integer()?;
                u16::try_from(number).ok()
            };
            Ports {
                plain: port("port"),
                tls: port("tls-port"),
            }
        })
    }

    /// The address of the node with this id for a client, on servers where it depends on the client (Valkey).
    pub(crate) fn cluster_ip_for(self, client: u64, id: &str) -> Option<String> {
        const BYTES: usize = 64; // an address takes 46 bytes at most
        let id = CString::new(id).ok()?;
        let mut ip = [0; BYTES];
        // SAFETY: the context and the id are live, an address and its final zero fit into `ip`, and nothing
        // is written to a null.
        let code = unsafe {
            NODE_INFO_FOR_CLIENT.get()?(
                self.raw,
                client,
                id.as_ptr(),
                ip.as_mut_ptr(),
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        // SAFETY: the last byte is zero whatever was written.
        let ip = unsafe { CStr::from_ptr(ip.as_ptr()) };
        (code == OK && !ip.is_empty()).then(|| ip.to_string_lossy().into_owned())
    }

    /// Returns true if the client with this id uses TLS.
    #[allow(clippy::unused_self)] // the proof that the server may be asked
    pub(crate) fn came_by_tls(self, client: u64) -> bool {
        const TLS: u64 = 1 << 0; // REDISMODULE_CLIENTINFO_FLAG_SSL
        let mut info = raw::RedisModuleClientInfo {
            version: 1,
            flags: 0,
            id: 0,
            addr: [0; 46],
            port: 0,
            db: 0,
        };
        // SAFETY: the server fills in a structure of the version that it says.
        let code = unsafe { api!(RedisModule_GetClientInfoById)((&raw mut info).cast(), client) };
        code == OK && info.flags & TLS != 0
    }
}

type NodeInfoForClient = unsafe extern "C" fn(
    *mut raw::RedisModuleCtx,
    u64,
    *const c_char,
    *mut c_char,
    *mut c_char,
    *mut c_int,
    *mut c_int,
) -> c_int;

// SAFETY: the type is that of the function: client, node, and where to put address, primary, port and
// flags.
static NODE_INFO_FOR_CLIENT: Optional<NodeInfoForClient> =
    unsafe { Optional::new(c"ValkeyModule_GetClusterNodeInfoForClient") };
