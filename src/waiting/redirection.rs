//! What calls that wait are told when a node of a cluster serves their lock no more.

use std::cell::OnceCell;
use std::ffi::CString;
use std::time::Duration;

use redis_lock_core::Monotonic;

use super::cluster_nodes::{self, Endpoint, ForClient, Target};
use crate::locks::{LockView, check_write, monotonic};
use crate::server::{Context, Ports, Text, WriteCheck, checks_unseen};

/// What a node knows of its cluster, asked once where it is needed: the answer may be long.
#[derive(Default)]
pub(super) struct NodesCache(OnceCell<Option<String>>);

impl NodesCache {
    fn get(&self, context: Context<'_>) -> Option<&str> {
        self.0.get_or_init(|| context.cluster_nodes()).as_deref()
    }
}

/// How often at most each lock is checked where the check is a command that is run, and counted.
const PERIOD: Duration = Duration::from_millis(100);

/// Limits how often a lock is checked for having left: each in its turn, once in a period.
#[derive(Default)]
pub(super) struct CheckLimit {
    began: Option<Monotonic>,
    /// How many are still to be checked in this period.
    left: usize,
}

impl CheckLimit {
    /// Whether the next lock, one of so many, is to be checked.
    pub(super) fn allows(&mut self, locks: usize) -> bool {
        if checks_unseen() {
            return true;
        }
        let now = monotonic();
        if self.left == 0 && self.began.is_none_or(|began| now.since(began) >= PERIOD) {
            *self = Self {
                began: Some(now),
                left: locks,
            };
        }
        let allowed = self.left > 0;
        self.left = self.left.saturating_sub(1);
        allowed
    }
}

/// Why nobody can wait here any more for a lock.
pub(super) enum Redirection {
    /// Another node is to be asked.
    To {
        target: Target,
        endpoint: Endpoint,
        ports: Ports,
    },
    /// Nobody serves the lock now.
    Down(CString),
}

impl Redirection {
    /// The error for a client: what a command of its own would get at this moment.
    pub(super) fn error(&self, context: Context<'_>, client: u64) -> CString {
        let (target, endpoint, ports) = match self {
            Self::Down(error) => return error.clone(),
            Self::To {
                target,
                endpoint,
                ports,
            } => (target, endpoint, ports),
        };
        let port = if context.came_by_tls(client) {
            ports.tls.or(ports.plain)
        } else {
            ports.plain.or(ports.tls)
        };
        let ip = context.cluster_ip_for(client, &target.id);
        target.error(*endpoint, &ForClient { ip, port })
    }
}

/// What those who wait for a lock, held or free, are told that is not served here any more; nothing
/// while they may wait on.
///
/// Asked from the event loop: nothing tells a module that a slot has left, or that the cluster is
/// down.
pub(super) fn check_served(
    context: Context<'_>,
    name: Text<'_>,
    nodes: &NodesCache,
) -> Option<Redirection> {
    if !context.flags().cluster() {
        return None;
    }
    let check = check_write(context, name);
    match check {
        WriteCheck::Allowed | WriteCheck::NotNow => None,
        WriteCheck::OtherNode if is_imported(context, name, nodes) => None,
        WriteCheck::OtherNode | WriteCheck::ClusterDown => {
            Some(redirection(context, name, check, nodes))
        }
    }
}

/// What a command on a free lock is told where the check says that it is not run.
pub(super) fn redirection(
    context: Context<'_>,
    name: Text<'_>,
    check: WriteCheck,
    nodes: &NodesCache,
) -> Redirection {
    match (nodes.get(context), context.cluster_slot(name)) {
        (Some(nodes), Some(slot)) if check == WriteCheck::OtherNode => {
            let Some(target) = cluster_nodes::target(nodes, slot) else {
                return Redirection::Down(cluster_nodes::unserved());
            };
            let setting = context.setting(c"cluster-preferred-endpoint-type");
            Redirection::To {
                endpoint: Endpoint::of_setting(&setting.unwrap_or_default()),
                ports: context.cluster_ports(&target.id),
                target,
            }
        }
        _ => Redirection::Down(cluster_nodes::down()),
    }
}

/// Whether the slot is on its way here and the lock has come already: it is served to those who are
/// sent here for it, and they may wait for it.
fn is_imported(context: Context<'_>, name: Text<'_>, nodes: &NodesCache) -> bool {
    let (Some(nodes), Some(slot)) = (nodes.get(context), context.cluster_slot(name)) else {
        return false;
    };
    cluster_nodes::imports(nodes, slot)
        && matches!(LockView::open(context, name).held(), Ok(Some(_)))
}
