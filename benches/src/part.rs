//! A part of the benchmark: how much it measures, and its outcome, which is tables, goals and bars for the plot.

use crate::servers::Program;
use crate::stats::Spread;
use crate::table::Table;

/// The amounts of the quick form and of the full one.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Scale {
    /// Everything, with fewer and shorter rounds.
    Quick,
    /// The form of the published figures.
    Full,
}

impl Scale {
    /// An amount in this form: the first in the quick one, the second in the full one.
    pub(crate) fn of<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }

    pub(crate) fn rounds(self) -> usize {
        self.of(7, 9)
    }

    /// Pairs a round, sent in batches.
    pub(crate) fn pipelined_pairs(self) -> usize {
        self.of(5_000, 20_000)
    }
}

/// The outcome of one part.
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) tables: Vec<Table>,
    /// The tools it was measured with, besides the servers.
    pub(crate) facts: Vec<String>,
    pub(crate) goals: Vec<Goal>,
    pub(crate) panels: Vec<Panel>,
}

impl Part {
    /// A table, and what it is to show.
    pub(crate) fn new(table: Table, goals: impl Into<Vec<Goal>>) -> Self {
        Self {
            tables: vec![table],
            goals: goals.into(),
            ..Self::default()
        }
    }

    /// The parts on each server. The goals are those of the first.
    pub(crate) fn of_each(programs: &[Program], measure: impl Fn(&Program) -> Self) -> Self {
        let mut all = Self::default();
        for (index, program) in programs.iter().enumerate() {
            let mut part = measure(program);
            if index > 0 {
                part.goals.clear();
            }
            all.add(part);
        }
        all
    }

    /// With the outcome of another part.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.add(other);
        self
    }

    pub(crate) fn add(&mut self, other: Part) {
        self.tables.extend(other.tables);
        self.facts.extend(other.facts);
        self.goals.extend(other.goals);
        self.panels.extend(other.panels);
    }
}

/// The bound of a goal.
#[derive(Clone, Copy)]
pub(crate) enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

/// A ratio, or a figure whose name has its unit, that the module is meant to reach.
pub(crate) struct Goal {
    pub(crate) what: String,
    pub(crate) limit: Limit,
    /// `None` when this run has not measured it.
    pub(crate) found: Option<Spread>,
}

impl Goal {
    pub(crate) fn new(what: impl Into<String>, limit: Limit, found: Option<Spread>) -> Self {
        let what = what.into();
        Self { what, limit, found }
    }

    /// True when the median is within the bound.
    pub(crate) fn is_met(&self) -> Option<bool> {
        let median = self.found?.median;
        Some(match self.limit {
            Limit::AtMost(limit) => median <= limit,
            Limit::AtLeast(limit) => median >= limit,
        })
    }
}

/// A group of bars: ratios of one kind.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) bars: Vec<Bar>,
}

/// One ratio.
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) ratio: Spread,
    /// True for this module's bars, which have their own colour.
    pub(crate) ours: bool,
}
