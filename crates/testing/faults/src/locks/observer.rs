//! Somebody who only looks: at the queues, and at who holds what.

use super::protocol;
use super::stage::Stage;
use history::{Action, Call, Sighting};
use redis::Value;
use std::thread::sleep;
use std::time::Duration;
use testbed::Expect;

/// The number under which its calls are recorded.
const NUMBER: u32 = 1_002;

/// Looks at one lock and queue after the other until the run is over.
pub(crate) fn watch(stage: &Stage) -> (Vec<Sighting>, Vec<Call>) {
    let (mut sightings, mut calls) = (Vec::new(), Vec::new());
    while !stage.run.is_over() {
        for key in &stage.run.keys {
            let node = stage.deployment.home(key);
            let life = stage.deployment.nodes()[node].life();
            let sent = stage.run.now();
            let look = protocol::command(key, "", &Action::Look, 0);
            let reply: redis::RedisResult<(Value, Value)> =
                stage.deployment.nodes()[node].connect().and_then(|mut c| {
                    let mut both = redis::pipe();
                    both.cmd("LOCK.WAITERS").arg(key).add_command(look);
                    both.query(&mut c)
                });
            let ended = stage.run.now();
            if let Ok((waiters, holders)) = reply {
                let outcome = protocol::outcome(&Action::Look, holders);
                let look = Call::sent(NUMBER, key, "", Action::Look, sent);
                calls.push(look.ended(ended, outcome));
                sightings.push(Sighting {
                    key: key.clone(),
                    sent,
                    ended,
                    clients: clients(stage, (node, life), waiters),
                });
            }
            sleep(Duration::from_millis(4));
        }
    }
    (sightings, calls)
}

/// Who waits, by a reply of `LOCK.WAITERS` of this node in this life. Those that wait in a session are known by their
/// owners.
pub(crate) fn clients(stage: &Stage, (node, life): (usize, u32), waiters: Value) -> Vec<u32> {
    let known = |waiter: Value| {
        let fields = waiter.fields();
        if fields["session"] == Value::Int(0) {
            return stage.client_of((node, life, fields["client-id"].clone().int()));
        }
        let owner = fields["owner"].clone().text();
        let (number, _) = owner.strip_prefix("client-")?.split_once(':')?;
        number.parse().ok()
    };
    waiters.items().into_iter().filter_map(known).collect()
}

/// The `client-id` of each waiting call in a reply of `LOCK.WAITERS`.
pub(crate) fn client_ids(waiters: Value) -> Vec<i64> {
    let id = |waiter: Value| waiter.fields().remove("client-id").expect("an id").int();
    waiters.items().into_iter().map(id).collect()
}
