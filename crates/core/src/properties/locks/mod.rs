//! Properties of locks, over histories of several keys and many owners under one token clock.

pub(super) mod history;
mod memory;
pub(super) mod numbers;
mod sentences;
pub(super) mod system;
#[cfg(test)]
mod tests;

use super::choices::{Choices, Trace};
use crate::model::lock::{Call, Event, Reply, Server};
use history::{KEYS, Operation};
use system::System;

/// The model and the code, which give the same replies and are in the same state.
#[derive(Clone)]
pub(super) struct SideBySide {
    pub(super) model: Server,
    pub(super) system: System,
}

impl SideBySide {
    pub(super) fn start(model: Server) -> Self {
        let system = System::like(&model);
        Self { model, system }
    }

    pub(super) fn apply(&mut self, event: &Event) {
        self.model.apply(event.clone());
        self.system.apply(event);
        self.system.check(&self.model);
    }

    pub(super) fn call(&mut self, call: Call) -> Reply {
        let reply = self.model.call(call);
        assert_eq!(self.system.call(call), reply, "{call:?}");
        self.system.check(&self.model);
        reply
    }
}

/// A call, the states before and after it, and its reply.
struct Called<'a> {
    before: &'a SideBySide,
    call: Call,
    reply: Reply,
    after: &'a SideBySide,
}

/// Runs a history and passes each call to `check`. The first bytes choose the start, and the others one step each.
fn run<Bytes: AsRef<[u8]>>(history: &[Bytes], mut check: impl FnMut(&Called<'_>)) {
    let Some((first, steps)) = history.split_first() else {
        return;
    };
    let mut choices = Choices::new(first.as_ref());
    let mut both = SideBySide::start(history::start(&mut choices));
    let mut trace = Trace(Vec::new());
    for key in KEYS {
        if choices.chance(11)
            && let Some(holders) = history::restored(&mut choices, &both.model, key)
        {
            trace
                .0
                .push(Operation::Event(Event::Restore(key, holders.clone())));
            both.apply(&Event::Restore(key, holders));
        }
    }
    for bytes in steps {
        let mut choices = Choices::new(bytes.as_ref());
        let Some(operation) = history::operation(&mut choices, &both.model) else {
            continue;
        };
        trace.0.push(operation.clone());
        match operation {
            Operation::Event(event) => both.apply(&event),
            Operation::Call(call) => {
                let before = both.clone();
                let reply = both.call(call);
                check(&Called {
                    before: &before,
                    call,
                    reply,
                    after: &both,
                });
            }
        }
    }
}

/// Checks the history that these bytes stand for, one step up to each byte of 255. Panics when a sentence
/// does not hold.
#[cfg(fuzzing)]
pub fn check(bytes: &[u8]) {
    const MAX_STEPS: usize = 100;
    let history: Vec<_> = bytes.split(|byte| *byte == 255).take(MAX_STEPS).collect();
    let (mut highest, mut bound) = (0, Vec::new());
    run(&history, |called| {
        sentences::keeps_the_invariants(called, &mut highest);
        sentences::can_be_repeated(called);
        sentences::leaves_later_grants_alone(called, &mut bound);
    });
}
