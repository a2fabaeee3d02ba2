//! Starts contenders, and what is done to them.

use super::{Due, QuorumNemesis};
use crate::quorum::event::contender_of;
use crate::quorum::process::{Process, progress};
use rand::{Rng, RngExt};
use std::time::{Duration, Instant};

/// How long contenders may take to end.
const PATIENCE: Duration = Duration::from_secs(20);

impl QuorumNemesis<'_> {
    pub(super) fn start_contender(&mut self) {
        let mut orders = self.orders.clone();
        orders.seed = self.random.next_u64();
        self.orders.number += 1;
        self.processes.push(Process::start(&orders, &self.board));
    }

    pub(super) fn stop_contender(&mut self) -> bool {
        let Some(index) = self.holder() else {
            return false;
        };
        let number = self.processes[index].number;
        if self.is_stopped(number) {
            return false;
        }
        self.processes[index].stop();
        self.count("SIGSTOP of contenders");
        let held = self.held_by(number);
        let longest_lease = self.setup.longest_lease();
        let at_last = Instant::now() + longest_lease * 3 + self.setup.longest_hold();
        let due = Due::LetContenderGoOn {
            number,
            held,
            at_last,
        };
        self.plan(longest_lease + Duration::from_millis(100), due);
        true
    }

    pub(super) fn kill_contender(&mut self) -> bool {
        let Some(index) = self.holder() else {
            return false;
        };
        if self.is_stopped(self.processes[index].number) {
            return false;
        }
        let mut process = self.processes.swap_remove(index);
        process.kill();
        self.count("kill -9 of contenders");
        self.records.push(process.finish(PATIENCE));
        self.start_contender();
        true
    }

    /// A contender that holds something, if any does.
    fn holder(&mut self) -> Option<usize> {
        let holders: Vec<u32> = {
            let progress = progress(&self.board);
            progress.holds.keys().copied().map(contender_of).collect()
        };
        let mut holders: Vec<usize> = (0..self.processes.len())
            .filter(|index| holders.contains(&self.processes[*index].number))
            .collect();
        holders.sort_unstable();
        if holders.is_empty() {
            return None;
        }
        Some(holders[self.random.random_range(0..holders.len())])
    }

    fn held_by(&self, number: u32) -> Vec<(String, u64)> {
        let progress = progress(&self.board);
        let holds = progress.holds.iter();
        holds
            .filter(|(client, _)| contender_of(**client) == number)
            .map(|(_, hold)| hold.clone())
            .collect()
    }

    fn is_stopped(&self, number: u32) -> bool {
        self.due.iter().any(|(_, due)| {
            matches!(due, Due::LetContenderGoOn { number: stopped, .. } if *stopped == number)
        })
    }

    pub(super) fn end_contenders(&mut self) {
        for process in &mut self.processes {
            process.close();
        }
        let processes = self.processes.drain(..);
        let records: Vec<_> = processes.map(|process| process.finish(PATIENCE)).collect();
        self.records.extend(records);
    }
}
