//! A program that freezes, or dies: its session holds a lock through a short freeze. After a long one, or a lease after its
//! end, another owner gets the lock.

use super::Client;
use super::queue::Asks;
use crate::clock;
use crate::locks::program::{Freeze, Place, Program, SILENCE};
use history::{Action, Down, Outcome, Renewed, Span};
use std::thread::sleep;
use std::time::{Duration, Instant};

const KEY: &str = "frozen";
const LEASE: u64 = 1_000;
/// Longer than the lease, and shorter than the session's timeout.
const SHORT: Duration = Duration::from_millis(1_300);
/// A busy machine may need so much longer for all that happens. In stalls of the server no time passes.
const BUSY: u64 = 2_000;
/// After this time of silence the session has ended, and so has the lease.
const FROZEN: Duration = Duration::from_millis(SILENCE + 2_000 + LEASE + BUSY);
/// So long after the end of the connection the lease has ended: sooner than the session.
const DISCONNECTED: Duration = Duration::from_millis(LEASE + BUSY);
/// How long a call may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

impl Client<'_> {
    /// Freezes the program time and again, until the run is over.
    pub(crate) fn freeze(&mut self, program: &Program<'_>) {
        while !self.stage.run.is_over() {
            self.tasks += 1;
            self.freeze_once(program);
        }
    }

    fn freeze_once(&mut self, program: &Program<'_>) {
        let owner = self.owner();
        let asked = self.stage.run.now();
        let asks = Asks::new(KEY, &owner, None, LEASE);
        let Some((place, held)) = self.enter_by_queue(program, asks, PATIENCE) else {
            self.stage.run.trouble("nobody else takes that lock");
            return;
        };
        self.freeze_for_a_while(program, place, &owner, held.token);
        let freeze = if self.tasks.is_multiple_of(2) {
            Freeze::Frozen
        } else {
            Freeze::Disconnected
        };
        program.freeze(freeze);
        let taker = format!("{owner}:taker");
        let is_taken = self.take_from_the_frozen(&taker, freeze);
        program.freeze(Freeze::No);
        if is_taken {
            self.release(KEY, &taker, Down::All, None);
        }
        self.clean_up(KEY, &owner);
        self.renewed.push(Renewed {
            key: KEY.to_owned(),
            owner,
            span: Span {
                from: asked,
                to: self.stage.run.now(),
            },
        });
    }

    /// Freezes the program for longer than its lease. It must have its lock afterwards.
    fn freeze_for_a_while(&self, program: &Program<'_>, place: Place, owner: &str, token: u64) {
        let run = &self.stage.run;
        let (began, stalled) = (Instant::now(), self.stage.stalled());
        program.freeze(Freeze::Frozen);
        sleep(SHORT);
        program.freeze(Freeze::No);
        let is_lost = program.will_tell(place, (KEY, owner), token, 1);
        let stalls = self.stage.stalled_since(stalled);
        let was_short = began.elapsed() < Duration::from_millis(SILENCE) + stalls;
        if !is_lost {
            run.count("held through a short freeze", 1);
        } else if was_short && !program.is_open(place) {
            run.trouble("a session ended that had not been silent for too long");
        } else if was_short && stalls.is_zero() && !run.is_over() {
            run.trouble("a session that had not been silent for too long lost its lock");
        }
    }

    /// Waits for the frozen program's lock, which must come when its lease is over.
    fn take_from_the_frozen(&mut self, taker: &str, freeze: Freeze) -> bool {
        let (free, what) = if freeze == Freeze::Frozen {
            (FROZEN, "taken from a frozen program")
        } else {
            (DISCONNECTED, "taken from a disconnected program")
        };
        let action = Action::Acquire {
            limit: None,
            lease: Some(60_000),
            block: true,
            holds: None,
            token: None,
        };
        let (began, stalled) = (Instant::now(), self.stage.stalled());
        let outcome = self.ask(KEY, taker, action, clock::millis(PATIENCE + PATIENCE));
        let is_taken = matches!(outcome, Outcome::Grant { .. });
        let run = &self.stage.run;
        if is_taken && began.elapsed() < free + self.stage.stalled_since(stalled) {
            run.count(what, 1);
        } else {
            run.trouble(format!("a lock was not free in time to be {what}"));
        }
        is_taken
    }
}
