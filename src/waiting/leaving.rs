//! Locks that leave a node of a cluster while somebody waits for them.

use std::cell::OnceCell;
use std::ffi::CString;
use std::time::Duration;

use redis_lock_core::Monotonic;

use super::redirect::{self, Endpoint, ForClient, Target};
use crate::locks::{LockKey, check_write, monotonic};
use crate::server::{Context, Ports, Text, WriteCheck, checks_unseen};

/// What a node knows of its cluster, asked once where it is needed: the answer may be long.
#[derive(Default)]
pub(super) struct View(OnceCell<Option<String>>);

impl View {
    fn nodes(&self, context: Context<'_>) -> Option<&str> {
        self.0.get_or_init(|| context.cluster_nodes()).as_deref()
    }
}

/// How often at most each lock is asked about where asking is a command that is run, and counted.
const PERIOD: Duration = Duration::from_millis(100);

/// Of which locks it is asked now whether they have left: of all in their turn, once in a period.
#[derive(Default)]
pub(super) struct Rota {
    began: Option<Monotonic>,
    /// How many are still to be asked about in this period.
    left: usize,
}

impl Rota {
    /// Whether it is to be asked about the lock whose turn it is, one of so many.
    pub(super) fn is_due(&mut self, locks: usize) -> bool {
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
        let due = self.left > 0;
        self.left = self.left.saturating_sub(1);
        due
    }
}

/// Why nobody can wait here any more for a lock.
pub(super) enum Farewell {
    /// Another node is to be asked.
    Sent {
        target: Target,
        endpoint: Endpoint,
        ports: Ports,
    },
    /// Nobody serves the lock now.
    Down(CString),
}

impl Farewell {
    /// The error for a client: what a command of its own would get at this moment.
    pub(super) fn error(&self, context: Context<'_>, client: u64) -> CString {
        let (target, endpoint, ports) = match self {
            Self::Down(error) => return error.clone(),
            Self::Sent {
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
        target.redirection(*endpoint, &ForClient { ip, port })
    }
}

/// What those who wait for a lock, held or free, are told that is not served here any more; nothing
/// while they may wait on.
///
/// Asked from the event loop: nothing tells a module that a slot has left, or that the cluster is
/// down.
pub(super) fn farewell(context: Context<'_>, name: Text<'_>, view: &View) -> Option<Farewell> {
    if !context.flags().cluster() {
        return None;
    }
    let check = check_write(context, name);
    match check {
        WriteCheck::Allowed | WriteCheck::NotNow => None,
        WriteCheck::OtherNode if comes_here(context, name, view) => None,
        WriteCheck::OtherNode | WriteCheck::ClusterDown => {
            Some(redirection(context, name, check, view))
        }
    }
}

/// What a command on a free lock is told where the check says that it is not run.
pub(super) fn redirection(
    context: Context<'_>,
    name: Text<'_>,
    check: WriteCheck,
    view: &View,
) -> Farewell {
    match (view.nodes(context), context.cluster_slot(name)) {
        (Some(nodes), Some(slot)) if check == WriteCheck::OtherNode => {
            let Some(target) = redirect::target(nodes, slot) else {
                return Farewell::Down(redirect::unserved());
            };
            let setting = context.setting(c"cluster-preferred-endpoint-type");
            Farewell::Sent {
                endpoint: Endpoint::of_setting(&setting.unwrap_or_default()),
                ports: context.cluster_ports(&target.id),
                target,
            }
        }
        _ => Farewell::Down(redirect::down()),
    }
}

/// Whether the slot is on its way here and the lock has come already: it is served to those who are
/// sent here for it, and they may wait for it.
fn comes_here(context: Context<'_>, name: Text<'_>, view: &View) -> bool {
    let (Some(nodes), Some(slot)) = (view.nodes(context), context.cluster_slot(name)) else {
        return false;
    };
    redirect::imports(nodes, slot) && matches!(LockKey::look(context, name).held(), Ok(Some(_)))
}
