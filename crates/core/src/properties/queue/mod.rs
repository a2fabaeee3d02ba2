//! Properties of waiting, over histories of calls that wait for several locks, and whose clients come and go.

mod checks;
mod history;
mod sentences;
mod system;
#[cfg(test)]
mod tests;

use super::choices::{Choices, Trace};
use super::locks::history::KEYS;
use crate::model::call::{Call, Operation, Stage};
use crate::model::lock::{Event, Reply, Server, Settings};
use crate::model::queue::Queue;
use system::System;

/// The model and the code, which give the same replies and are in the same state.
pub(super) struct SideBySide {
    pub(super) model: Queue,
    system: System,
    trace: Trace<Operation>,
}

impl SideBySide {
    pub(super) fn start(locks: Server) -> Self {
        let system = System::like(&locks);
        Self {
            model: Queue::new(locks),
            system,
            trace: Trace(Vec::new()),
        }
    }

    pub(super) fn apply(&mut self, operation: Operation) -> Option<Reply> {
        if let Operation::Event(Event::Clock(now)) = &operation
            && *now < self.model.locks.now
        {
            // A lease that has ended may begin again, unless its lock was looked at in between.
            for key in KEYS {
                self.model.locks.end_leases(key);
                self.system.locks.end_leases(key);
            }
        }
        self.trace.0.push(operation.clone());
        let reply = self.model.apply(operation.clone());
        assert_eq!(self.system.apply(operation), reply);
        self.system.check(&self.model);
        reply
    }

    /// The numbers of the calls for which this is true.
    fn calls(&self, is: impl Fn(&Call) -> bool) -> Vec<usize> {
        let calls = self.model.calls.iter().filter(|call| is(call));
        calls.map(|call| call.number).collect()
    }
}

/// Runs a history, one step for each sequence of bytes, and then ends every call. Passes the model before each
/// operation and the state after it to `check`.
fn run<Bytes: AsRef<[u8]>>(history: &[Bytes], mut check: impl FnMut(&Queue, &SideBySide)) -> Queue {
    let settings = Settings {
        default_lease: 20,
        max_lead: 5_000,
        max_holders: 1_000,
    };
    let mut both = SideBySide::start(Server::new(history::TODAY, 0, settings));
    let mut apply = |both: &mut SideBySide, operation| {
        let before = both.model.clone();
        both.apply(operation);
        check(&before, both);
    };
    for bytes in history {
        let mut choices = Choices::new(bytes.as_ref());
        let Some(operation) = history::operation(&mut choices, &both.model) else {
            continue;
        };
        if matches!(operation, Operation::Swap) {
            // A granted call whose lock moves to another database is not found again. So all are answered.
            for number in both.calls(|call| matches!(call.stage, Stage::Granted(_))) {
                apply(&mut both, Operation::Write(number));
            }
            apply(&mut both, Operation::Send);
        }
        apply(&mut both, operation);
    }
    // The first round ends with replies that are sent.
    for _ in 0..2 {
        for operation in history::ends_of_all(&both) {
            apply(&mut both, operation);
        }
    }
    both.system.check_at_the_end();
    both.model.clone()
}

/// Checks the history that these bytes stand for, one step up to each byte of 255. Panics when a sentence
/// does not hold.
#[cfg(fuzzing)]
pub fn check(bytes: &[u8]) {
    const MAX_STEPS: usize = 150;
    let history: Vec<_> = bytes.split(|byte| *byte == 255).take(MAX_STEPS).collect();
    run(&history, sentences::hold);
}
