//! A node of a cluster knows the waits for its own slots.

use crate::support::{Waiter, line, run, text};
use testbed::cluster::slot;
use testbed::{Cluster, Expect};

/// Names that the first and the second of two primaries serve.
fn keys(cluster: &Cluster) -> [[String; 2]; 2] {
    [0, 1].map(|node| {
        let mut names = (0..).map(|number| format!("k{number}"));
        let mut next = || {
            names
                .find(|name| cluster.serves(slot(name)) == node)
                .unwrap()
        };
        [next(), next()]
    })
}

#[test]
fn a_circle_over_the_slots_of_a_node_is_found_and_over_two_nodes_it_is_not() {
    let cluster = Cluster::start(2, 0);
    let [[k, j], [far, _]] = keys(&cluster);
    assert_ne!(slot(&k), slot(&j));
    let (here, there) = (cluster.node(0), cluster.node(1));
    let mut c = here.connection();
    run(&mut c, &format!("LOCK.ACQUIRE {k} a PX 600000")).grant();
    run(&mut c, &format!("LOCK.ACQUIRE {j} b PX 600000")).grant();
    let command = line(&format!("LOCK.ACQUIRE {k} b BLOCK 0"));
    let waiter = Waiter::on(here, here.connection(), &command);
    let reply = run(&mut c, &format!("LOCK.ACQUIRE {j} a BLOCK 10000"));
    assert_eq!(reply.refused("DEADLOCK"), text(2));

    let mut other = there.connection();
    run(&mut other, &format!("LOCK.ACQUIRE {far} b PX 600000")).grant();
    let command = line(&format!("LOCK.ACQUIRE {far} a BLOCK 0"));
    let _far = Waiter::on(there, there.connection(), &command);
    assert!(waiter.is_blocked(&mut c));
}
