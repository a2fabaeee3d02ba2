//! Redirects waiting calls when this cluster node no longer serves their lock.

use std::ffi::CString;
use std::time::Duration;

use redis_lock_core::Monotonic;

use crate::locks::{LockView, check_write, monotonic, now};
use crate::server::cluster_nodes::{self, Endpoint, ForClient, NodesCache, Target};
use crate::server::{Context, Ports, Text, WriteCheck, can_dry_run};

/// The shortest time between two checks of a lock on a server without dry runs. There each check runs as a command and
/// appears in the command statistics.
const PERIOD: Duration = Duration::from_millis(100);

/// Limits how often locks are checked: each lock is checked at most once per [`PERIOD`], in turn.
#[derive(Default)]
pub(super) struct CheckLimit {
    began: Option<Monotonic>,
    /// How many checks are left in this period.
    left: usize,
}

impl CheckLimit {
    /// Returns true if the next lock should be checked. `locks` is the number of locks that take turns.
    pub(super) fn allows(&mut self, locks: usize) -> bool {
        if can_dry_run() {
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

/// Why calls can no longer wait for a lock here.
pub(super) enum Redirection {
    /// Another node serves the lock.
    To {
        target: Target,
        endpoint: Endpoint,
        ports: Ports,
    },
    /// No node serves the lock now.
    Down(CString),
}

impl Redirection {
    /// The error that the server would return to a command of this client now.
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

/// Returns the redirection for the calls that wait for a lock; `None` while this node serves it.
///
/// The event loop has to poll this, because a module gets no event when a slot moves or the cluster goes down.
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

/// The redirection that matches a refused [`check_write`].
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

/// Returns true if this node imports the slot and already has the lock. Clients that were redirected here with `ASK`
/// then keep waiting.
fn is_imported(context: Context<'_>, name: Text<'_>, nodes: &NodesCache) -> bool {
    nodes.imports(context, name)
        && matches!(
            LockView::open(context, name).holders(now(context)),
            Ok(Some(_))
        )
}
