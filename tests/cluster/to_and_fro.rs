//! A slot that moves to and fro while callers hold, release and wait for its lock: every wait ends, one
//! owner holds at a time, and tokens rise.

use crate::support::{KEY, SLOT, follow};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use testbed::{Cluster, Expect, Failover};

/// How many callers there are.
const CALLERS: usize = 6;

/// What the callers have seen: the tokens of the grants, in their order, and who holds the lock now.
#[derive(Default)]
struct Seen {
    tokens: Vec<i64>,
    holder: Option<String>,
}

/// Takes the lock again and again, wherever it is, until the end.
fn caller(cluster: &Cluster, owner: &str, seen: &Mutex<Seen>, ended: &AtomicBool) {
    let mut node = 0;
    while !ended.load(Ordering::Relaxed) {
        let mut acquire = redis::cmd("LOCK.ACQUIRE");
        acquire.arg(KEY).arg(owner).arg("PX").arg(600_000);
        acquire.arg("BLOCK").arg(20_000).arg("HOLDS").arg(1);
        let (at, reply) = follow(cluster, node, &acquire);
        node = at;
        let token = reply.grant().token;
        {
            let mut seen = seen.lock().expect("no panic");
            assert_eq!(seen.holder.replace(owner.to_owned()), None, "two holders");
            seen.tokens.push(token);
        }
        // Others come to wait meanwhile.
        thread::yield_now();
        seen.lock().expect("no panic").holder = None;
        let mut release = redis::cmd("LOCK.RELEASE");
        release.arg(KEY).arg(owner).arg("TOKEN").arg(token);
        let (at, reply) = follow(cluster, node, &release);
        node = at;
        assert_eq!(reply.int(), 0);
    }
}

/// Runs the callers on a cluster while something happens to it; the tokens of all grants.
pub(crate) fn with_callers(cluster: &Cluster, events: impl FnOnce()) -> Vec<i64> {
    let (seen, ended) = (Mutex::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        for number in 0..CALLERS {
            let (seen, ended) = (&seen, &ended);
            scope.spawn(move || caller(cluster, &format!("caller {number}"), seen, ended));
        }
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(events));
        ended.store(true, Ordering::Relaxed);
        if let Err(panic) = done {
            std::panic::resume_unwind(panic);
        }
    });
    let seen = seen.into_inner().expect("no panic");
    seen.tokens
}

#[track_caller]
pub(crate) fn assert_rising(tokens: &[i64], at_least: usize) {
    let falls = tokens.windows(2).find(|pair| pair[0] >= pair[1]);
    assert_eq!(falls, None, "tokens that do not rise");
    assert!(tokens.len() >= at_least, "only {} grants", tokens.len());
}

#[test]
fn by_migrate() {
    let cluster = Cluster::start(2, 0);
    let tokens = with_callers(&cluster, || {
        for round in 0..20 {
            let (from, to) = if round % 2 == 0 { (1, 0) } else { (0, 1) };
            cluster.begin_move(SLOT, from, to);
            while cluster.carry_keys(SLOT, from, to) > 0 {}
            cluster.end_move(SLOT, from, to);
            // Nodes that have not heard of each other's last step could both take the slot for theirs.
            cluster.wait_until_whole();
        }
    });
    assert_rising(&tokens, CALLERS);
}

#[test]
fn by_failovers() {
    let cluster = Cluster::start(3, 1);
    let tokens = with_callers(&cluster, || {
        for _ in 0..4 {
            let new = cluster.replicas_of(cluster.serves(SLOT))[0];
            cluster.fail_over(new, Failover::Agreed);
            cluster.wait_until_whole();
        }
    });
    assert_rising(&tokens, CALLERS);
}
