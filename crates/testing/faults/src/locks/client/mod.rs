//! A client of the locks, which records what it asks and what it is answered.

mod ask;
mod held;
mod queue;
mod task;

use super::line::Line;
use super::stage::Stage;
use crate::register::SqlRegister;
use history::{Action, Call, Limit, Moment, Outcome, Renewed, Write};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use std::collections::HashMap;
use std::thread::sleep;
use std::time::Duration;

/// The number of the first client's twin; the others' follow.
pub(crate) const TWINS: u32 = 500;

/// The record of a client.
pub(crate) struct Record {
    pub(crate) calls: Vec<Call>,
    pub(crate) writes: Vec<Write>,
    pub(crate) renewed: Vec<Renewed>,
}

/// A client. It makes one call at a time.
pub(crate) struct Client<'s> {
    stage: &'s Stage,
    number: u32,
    random: StdRng,
    /// Past the proxy.
    is_direct: bool,
    /// To each node that was needed so far.
    lines: HashMap<usize, Line>,
    /// Which node has answered last.
    answered_by: usize,
    /// To the database, once it has written there.
    sql: Option<SqlRegister>,
    tasks: u32,
    /// When servers had the last call that they sent on elsewhere.
    sent_on: Vec<(Moment, Moment)>,
    calls: Vec<Call>,
    writes: Vec<Write>,
    renewed: Vec<Renewed>,
}

impl<'s> Client<'s> {
    /// A client that draws its choices from the seed of the run and its number.
    pub(crate) fn new(stage: &'s Stage, number: u32, is_direct: bool) -> Self {
        Self {
            stage,
            number,
            random: stage.run.random(number),
            is_direct,
            lines: HashMap::new(),
            answered_by: 0,
            sql: None,
            tasks: 0,
            sent_on: Vec::new(),
            calls: Vec::new(),
            writes: Vec::new(),
            renewed: Vec::new(),
        }
    }

    /// Its record.
    pub(crate) fn into_record(self) -> Record {
        Record {
            calls: self.calls,
            writes: self.writes,
            renewed: self.renewed,
        }
    }

    /// Looks who holds the lock, however long that takes.
    pub(crate) fn look(&mut self, key: &str) {
        for _ in 0..1_000 {
            if self.ask(key, "", Action::Look, 0) != Outcome::Untouched {
                return;
            }
        }
    }

    fn key(&mut self) -> String {
        let keys = &self.stage.run.keys;
        keys.choose(&mut self.random).expect("keys").clone()
    }

    /// The request: to write, to read, or one of a few permits.
    fn limit(&mut self) -> Option<Limit> {
        match self.random.random_range(0..10) {
            0..5 => None,
            5..8 => Some(Limit::NONE),
            8 => Some(Limit::new(2)),
            _ => Some(Limit::new(3)),
        }
    }

    /// An owner that nobody has used before.
    fn owner(&self) -> String {
        format!("client-{}:task-{}", self.number, self.tasks)
    }

    /// Up to so many milliseconds.
    fn pause(&mut self, most: u64) {
        sleep(Duration::from_millis(self.random.random_range(0..=most)));
    }
}
