//! How often a search took each kind of fault: one that took none has shown nothing.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::action::{Action, Reply};
use crate::state::{Phase, State};

/// Steps of a search.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    lost: AtomicU64,
    doubled: AtomicU64,
    reordered: AtomicU64,
    late: AtomicU64,
    leases: AtomicU64,
    crashes: AtomicU64,
}

impl Counts {
    pub(crate) fn count(&self, state: &State, action: Action) {
        let add = |counter: &AtomicU64| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        match action {
            Action::Acquire { at, reply, .. } => {
                let phase = state.attempts[at.attempt].phase;
                if reply == Reply::Lost {
                    add(&self.lost);
                }
                if state.servers[at.server].heard[at.attempt] != 0 {
                    add(&self.doubled);
                }
                if phase == Phase::Raising {
                    add(&self.reordered);
                }
                if is_over(phase) {
                    add(&self.late);
                }
            }
            Action::Raise { at, heard } => {
                if !heard {
                    add(&self.lost);
                }
                if state.servers[at.server].has_acknowledged(at.attempt) {
                    add(&self.doubled);
                }
                if is_over(state.attempts[at.attempt].phase) {
                    add(&self.late);
                }
            }
            Action::LeaseEnds { .. } => add(&self.leases),
            Action::Crash { .. } => add(&self.crashes),
            Action::LateRelease { .. } => add(&self.late),
            Action::Return { .. } | Action::Write { .. } => {}
        }
    }
}

fn is_over(phase: Phase) -> bool {
    matches!(phase, Phase::Held | Phase::Past | Phase::Over)
}

impl fmt::Display for Counts {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        write!(
            text,
            "replies lost {}, requests taken twice {}, round 1 after round 2 {}, from attempts that \
             are over {}, leases ended {}, memories lost {}",
            of(&self.lost),
            of(&self.doubled),
            of(&self.reordered),
            of(&self.late),
            of(&self.leases),
            of(&self.crashes),
        )
    }
}
