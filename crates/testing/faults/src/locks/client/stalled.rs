//! Owners of two programs that stand in one line while the server stalls: they are served in the order in which they
//! came, however their programs' connections fared.

use super::Client;
use super::queue::{Asked, Asks};
use crate::locks::program::{Next, Place, Program, What};
use history::{Action, Down, Moment, Outcome, Renewed, Span};
use rand::RngExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

const KEY: &str = "line";
const LEASE: u64 = 3_000;
const MEMBERS: usize = 8;
/// How long any of them waits.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long its turn may take, on a busy machine.
const TURN: Duration = Duration::from_secs(5);

/// One that waits in line.
struct Member<'p, 's> {
    program: &'p Program<'s>,
    owner: String,
    place: Place,
    sent: Moment,
}

impl Client<'_> {
    /// Has them wait in line through one stall after the other, until the run is over.
    pub(crate) fn stand_in_stalls(&mut self, programs: &[Program<'_>]) {
        while !self.stage.run.is_over() {
            self.tasks += 1;
            self.stand_in_a_stall(programs);
        }
    }

    fn stand_in_a_stall(&mut self, programs: &[Program<'_>]) {
        let stalled = self.stage.stalled();
        let first = format!("{}:first", self.owner());
        let action = Action::Acquire {
            limit: None,
            lease: Some(60_000),
            block: false,
            holds: None,
            token: None,
        };
        let Outcome::Grant { .. } = self.ask(KEY, &first, action, 0) else {
            self.stage.run.trouble("nobody else takes that lock");
            return;
        };
        let mut members = Vec::new();
        let mut whole = true;
        for (number, program) in programs.iter().cycle().take(MEMBERS).enumerate() {
            let owner = format!("{}:{number}", self.owner());
            let member = self.join(program, owner);
            whole &= member.is_some();
            members.extend(member);
        }
        while self.stage.stalled() == stalled && !self.stage.run.is_over() {
            sleep(Duration::from_millis(2));
        }
        sleep(Duration::from_millis(self.random.random_range(0..60)));
        // Is read after the stall, with all that has reached the server by then.
        self.release(KEY, &first, Down::All, None);
        let served = members.iter().all(|member| self.serve(member));
        let resumed = self.stage.resumed();
        let steady = |member: &Member<'_, '_>| member.program.was_steady(member.place, resumed);
        let is_judged = whole && members.iter().all(steady);
        if is_judged && served {
            self.stage.run.count("order kept through a stall", 1);
        } else if is_judged {
            let trouble = "a line was served out of turn, or not at all, after a stall";
            self.stage.run.trouble(trouble);
        }
        for member in members {
            self.clean_up(KEY, &member.owner);
            self.renewed.push(Renewed {
                key: KEY.to_owned(),
                owner: member.owner,
                span: Span {
                    from: member.sent,
                    to: self.stage.run.now(),
                },
            });
        }
    }

    fn join<'p, 's>(&mut self, program: &'p Program<'s>, owner: String) -> Option<Member<'p, 's>> {
        let sent = self.stage.run.now();
        let place = program.place(KEY, Instant::now() + TURN)?;
        let mut asks = Asks::new(KEY, &owner, None, LEASE);
        if let Asked::InLine = self.ask_in_line(&mut asks, place, PATIENCE) {
            return Some(Member {
                program,
                owner,
                place,
                sent,
            });
        }
        self.clean_up(KEY, &owner);
        self.record_unanswered(&asks);
        None
    }

    /// Whether it is its turn.
    fn serve(&mut self, member: &Member<'_, '_>) -> bool {
        let Member {
            program,
            owner,
            place,
            sent,
        } = member;
        let until = Instant::now() + TURN;
        let asks = Asks::new(KEY, owner, None, LEASE);
        let event = match program.await_end(*place, KEY, owner, until) {
            Next::Event(event) if matches!(event.what, What::Granted { .. }) => event,
            _ => {
                self.clean_up(KEY, owner);
                let span = (*sent, self.stage.run.now());
                self.entered(&asks, span, *place, &Outcome::Lost);
                return false;
            }
        };
        let outcome = self.outcome_of(&event, &asks);
        let entered = self.entered(&asks, (*sent, event.heard), *place, &outcome);
        let Some((place, held)) = entered else {
            return false;
        };
        self.release_in_session(place, &held) == Outcome::Left(0)
    }
}
