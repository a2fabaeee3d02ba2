//! Somebody who only looks: at the queues, and at who holds what.

use super::stage::Stage;
use history::Sighting;
use redis::Value;
use std::thread::sleep;
use std::time::Duration;
use testbed::Expect;

/// Looks at one queue after the other until the run is over.
pub(crate) fn watch(stage: &Stage) -> Vec<Sighting> {
    let mut sightings = Vec::new();
    while !stage.run.is_over() {
        for key in &stage.run.keys {
            let node = stage.deployment.home(key);
            let life = stage.deployment.nodes()[node].life();
            let sent = stage.run.now();
            let reply = stage.deployment.nodes()[node]
                .connect()
                .and_then(|mut c| redis::cmd("LOCK.WAITERS").arg(key).query(&mut c));
            let ended = stage.run.now();
            if let Ok(waiters) = reply {
                let known = |id| stage.client_of((node, life, id));
                sightings.push(Sighting {
                    key: key.clone(),
                    sent,
                    ended,
                    clients: client_ids(waiters).into_iter().filter_map(known).collect(),
                });
            }
            sleep(Duration::from_millis(4));
        }
    }
    sightings
}

/// The `client-id` of each waiting call in a reply of `LOCK.WAITERS`.
pub(crate) fn client_ids(waiters: Value) -> Vec<i64> {
    let id = |waiter: Value| waiter.fields().remove("client-id").expect("an id").int();
    waiters.items().into_iter().map(id).collect()
}
