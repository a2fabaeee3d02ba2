//! A client of the locks, which records what it asks and what it is answered.

mod ask;
mod task;

use super::line::Line;
use super::stage::Stage;
use crate::register::SqlRegister;
use history::{Call, Moment, Write};
use rand::rngs::StdRng;
use std::collections::HashMap;

/// The number of the first client's twin; the others' follow.
pub(crate) const TWINS: u32 = 500;

/// A client. It makes one call at a time.
pub(crate) struct Client<'s> {
    stage: &'s Stage,
    number: u32,
    random: StdRng,
    /// Past the proxy.
    is_direct: bool,
    /// To each node that was needed so far.
    lines: HashMap<usize, Line>,
    sql: SqlRegister,
    tasks: u32,
    /// When servers had the last call that they sent on elsewhere.
    sent_on: Vec<(Moment, Moment)>,
    calls: Vec<Call>,
    writes: Vec<Write>,
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
            sql: stage.sql.connection(),
            tasks: 0,
            sent_on: Vec::new(),
            calls: Vec::new(),
            writes: Vec::new(),
        }
    }

    /// What it recorded.
    pub(crate) fn into_record(self) -> (Vec<Call>, Vec<Write>) {
        (self.calls, self.writes)
    }
}
