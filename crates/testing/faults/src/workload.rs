//! The workload of a run.

use crate::run::Findings;
use history::Kind;

/// The work of clients, on several configurations of servers.
pub struct Workload {
    /// The columns of its table, from left to right: a heading, and the name of the count under it.
    pub columns: Vec<(&'static str, &'static str)>,
    /// In the order in which they are played.
    pub configurations: Vec<Box<dyn Configuration>>,
}

/// Which servers, which faults, and what must hold.
pub trait Configuration {
    /// As it is called on the command line.
    fn name(&self) -> &'static str;

    /// Plays it once.
    ///
    /// # Errors
    /// The reason why it cannot be had here.
    fn run(&self, seed: u64) -> Result<Findings, String>;

    /// What must have been counted at least once in all runs together: a run without it has not shown
    /// what it is for.
    fn wanted(&self) -> Vec<&'static str>;

    /// The violation that must be found, where the lock is wrong on purpose.
    fn must_show(&self) -> Option<Kind> {
        None
    }
}
