//! A primary with an append-only file, and a replica that only follows. Both must hold what the primary holds.

use super::{Deployment, Node};
use crate::run::Run;
use history::{Call, Granted, Outcome};
use std::collections::HashMap;
use std::sync::Mutex;
use testbed::effect::{self, Said};
use testbed::state::assert_same;
use testbed::{Expect, Server, cmd, eventually};

/// By how much the server's memory may have grown in the end: its own caches and buffers, what the allocator has not
/// given back, and tables that were large once. It is the same after three seconds and after thirty.
const MEMORY_LEFT: i64 = 3 << 19;

/// A primary and its replica. Clients use only the primary.
pub(crate) struct Followed {
    node: [Node; 1],
    servers: Mutex<[Server; 2]>,
    /// The memory of the primary at its start.
    memory: i64,
}

impl Followed {
    pub(crate) fn start() -> Self {
        let primary = Server::builder().config("appendonly", "yes").start();
        let replica = primary.replica();
        Self {
            node: [Node::of(&primary)],
            memory: primary.used_memory(),
            servers: Mutex::new([primary, replica]),
        }
    }
}

impl Deployment for Followed {
    fn nodes(&self) -> &[Node] {
        &self.node
    }

    fn with_server(&self, _node: usize, act: &mut dyn FnMut(&mut Server)) {
        let mut servers = self.servers.lock().expect("nobody died with the servers");
        act(&mut servers[0]);
    }

    fn home(&self, _key: &str) -> usize {
        0
    }

    fn compare(&self) -> bool {
        let servers = self.servers.lock().expect("nobody died with the servers");
        let [primary, replica] = &*servers;
        let mut c = primary.connection();
        cmd!(c, "CLIENT", "PAUSE", 20_000, "WRITE").okay();
        primary.wait_for_sync(replica);
        assert_same(&primary.state(), &replica.state(), "on the replica");
        cmd!(c, "CLIENT", "UNPAUSE").okay();
        true
    }

    fn check(&self, run: &Run, calls: &[Call]) {
        let mut servers = self.servers.lock().expect("nobody died with the servers");
        let [primary, replica] = &mut *servers;
        let expired = primary.number("stats", "expired_keys");
        run.count("expired", expired.unsigned_abs());
        check_nobody_is_left(primary);
        let over = || primary.whole_state() == primary.state();
        eventually(over, "the short leases to end");
        primary.wait_for_sync(replica);
        let [before, after] = [&*primary, replica].map(Server::whole_state);
        assert_same(&before, &after, "on the replica");
        check_tokens(primary, run, calls);
        run.check_log(replica);
        cmd!(primary.connection(), "FLUSHALL").okay();
        let is_back = || primary.used_memory() < self.memory + MEMORY_LEFT;
        eventually(is_back, "memory to return to where it was");
        check_file(primary, run);
    }
}

/// All connections are closed and nobody waits, by the server's and the module's count.
fn check_nobody_is_left(server: &Server) {
    let blocked = || server.info_field("clients", "blocked_clients");
    eventually(|| blocked() == "0", "no client to be blocked");
    // A session whose OPEN was not answered ends by silence.
    for name in ["lock_sessions", "lock_queued", "lock_session_grants"] {
        eventually(|| server.info_field("lock", name) == "0", name);
    }
}

/// The grants in the order in which they were made, by the append-only file: the token of each is higher than all
/// before it, and belongs to one owner of one lock. A call was told of no other grants.
fn check_tokens(server: &Server, run: &Run, calls: &[Call]) {
    let mut highest = 0;
    let mut holders = HashMap::new();
    for command in server.aof() {
        if !command[0].eq_ignore_ascii_case(b"LOCK._APPLY") {
            continue;
        }
        let [_, key, effect] = &command[..] else {
            panic!("not an effect: {command:?}");
        };
        let Some(Said { owner, token, .. }) = effect::read(effect) else {
            continue;
        };
        let holder = (key.clone(), owner);
        match holders.get(&token) {
            Some(known) if *known == holder => {}
            Some(known) => run.trouble(format!("{token} of {holder:?}, and of {known:?}")),
            None => {
                if token < highest {
                    run.trouble(format!("{token} of {holder:?} after {highest}"));
                }
                holders.insert(token, holder);
            }
        }
        highest = token.max(highest);
    }
    assert!(!holders.is_empty());
    for call in calls {
        if let Outcome::Grant(Granted { token, owner, .. }) = &call.outcome {
            let told = (call.key.clone().into_bytes(), owner.clone().into_bytes());
            if holders.get(&token.cast_signed()) != Some(&told) {
                run.trouble(format!("not in the file: {call}"));
            }
        }
    }
}

/// After a restart from the append-only file all locks are as before.
fn check_file(server: &mut Server, run: &Run) {
    let mut c = server.connection();
    for key in &run.keys {
        cmd!(c, "LOCK.ACQUIRE", key, "last", "PX", 600_000).grant();
    }
    let before = server.whole_state();
    server.restart();
    let after = server.whole_state();
    assert_same(&before, &after, "after a restart from the file");
}
