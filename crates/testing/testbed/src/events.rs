//! Keyspace events, as a subscriber receives them.

use crate::{Expect, Server, Talk, cmd, post, run};
use redis::Connection;

/// A subscriber to the keyspace events of all databases.
pub struct Subscriber(Connection);

impl Subscriber {
    /// Turns these classes of events on, and subscribes to them.
    #[track_caller]
    pub fn to(server: &Server, classes: &str) -> Self {
        let mut subscriber = server.connection();
        let line = format!("CONFIG SET notify-keyspace-events {classes}");
        run(&mut subscriber, &line).okay();
        post!(subscriber, "PSUBSCRIBE", "__keyevent@*", "end");
        subscriber.receive().value();
        subscriber.receive().value();
        Self(subscriber)
    }

    /// The next event, as `db event key`; none for the mark of [`Self::so_far`].
    #[track_caller]
    pub fn next_event(&mut self) -> Option<String> {
        let message = self.0.receive().items();
        let [channel, payload] = [2, 3].map(|at| message[at].clone().text());
        let (db, event) = channel.strip_prefix("__keyevent@")?.split_once("__:")?;
        Some(format!("{db} {event} {payload}"))
    }

    /// The events of this call, whatever it is answered.
    #[track_caller]
    pub fn of(&mut self, c: &mut Connection, line: &str) -> Vec<String> {
        let _ = run(c, line);
        self.so_far(c)
    }

    /// The events so far. A message of our own behind them says that there are no more.
    #[track_caller]
    pub fn so_far(&mut self, c: &mut Connection) -> Vec<String> {
        cmd!(*c, "PUBLISH", "end", "").int();
        std::iter::from_fn(|| self.next_event()).collect()
    }
}
