//! A client of the locks, which records what it asks and what it is answered.

mod ask;
mod frozen;
mod queue;
mod stalled;
mod task;

use super::line::Line;
use super::stage::Stage;
use crate::register::SqlRegister;
use history::{Call, Moment, Renewed, Write};
use rand::rngs::StdRng;
use std::collections::HashMap;

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
    sql: SqlRegister,
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
            sql: stage.sql.connection(),
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
}
