//! When a connection has been silent for too long.

use std::time::Duration;

use super::hearing::{LAG, Now};
use super::registry::{KeptGrants, READING};
use crate::Monotonic;

/// Connections wait so long to be asked about together: a question costs the same for many.
const GATHERING: Duration = Duration::from_millis(250);

impl KeptGrants {
    /// Tells the time: in each iteration of the event loop, and at least every 100 ms, while anything is
    /// kept. It comes before all else in an iteration: what lies between two calls that are far apart was a
    /// stall. `paused` says that since the last call clients were paused.
    pub fn tick(&mut self, now: Now, paused: bool) {
        self.hearing.note(now, paused);
    }

    /// The clients whose silence can have run out, at most so many. The caller asks the server when it
    /// heard from each, and says [`heard`](KeptGrants::heard); or
    /// [`client_closed`](KeptGrants::client_closed), where the server does not know the client. Whoever is
    /// not answered for is asked about again.
    pub fn to_ask(&mut self, now: Now, max: usize) -> Vec<u64> {
        self.tick(now, false);
        let alive = self.hearing.alive(now.monotonic);
        let mut clients = Vec::new();
        let is_time = |first: &(_, _)| alive.since(first.0) >= GATHERING;
        // The server's clock may still show the second before: its notes would seem to be later.
        let is_exact = now.unix.micros() % 1_000_000 >= LAG.unsigned_abs();
        if !is_exact || self.hearing.was_just_set() || !self.asks.first().is_some_and(is_time) {
            return clients;
        }
        while clients.len() < max
            && let Some((at, id)) = self.asks.first().copied()
            && at <= alive
        {
            self.asks.pop_first();
            let Some(connection) = self.connections.get_mut(&id) else {
                continue;
            };
            let again = alive.plus(GATHERING);
            connection.ask_at = Some(again);
            self.asks.insert((again, id));
            clients.push(connection.client_id);
        }
        clients
    }

    /// When to ask [`to_ask`](KeptGrants::to_ask) next, if the server does not stall.
    #[must_use]
    pub fn next_ask(&self) -> Option<Monotonic> {
        let (at, _) = self.asks.first()?;
        Some(self.hearing.monotonic(at.plus(GATHERING)))
    }

    /// The server heard from a client at this time: whole seconds since 1970, which is the server's own
    /// time less the `idle` of `CLIENT LIST`. True when the connection has been silent for too long: its
    /// client is to be closed.
    #[must_use]
    pub fn heard(&mut self, client_id: u64, noted: u64, now: Now) -> bool {
        self.tick(now, false);
        let Some(id) = self.connection_of(client_id) else {
            return false;
        };
        if self.hearing.was_just_set() {
            // The note may be by the clock of before. The client is asked about again.
            return false;
        }
        let latest = self.hearing.latest(noted);
        let alive = self.hearing.alive(now.monotonic);
        let Some(connection) = self.connections.get_mut(&id) else {
            return false;
        };
        connection.heard = connection.heard.max(latest);
        let silence = connection.silence().map(super::silence::Silence::length);
        if silence.is_some_and(|silence| alive.since(connection.heard) >= silence + READING) {
            return self.forget(id, None).is_some();
        }
        self.schedule_ask(id);
        false
    }
}
