//! Tasks that queue for a lock in a program's session, which renews their grant and reports its loss.

use super::Client;
use super::ask::What as Answer;
use super::held::Held;
use crate::locks::program::{Event, Next, Place, Program, What};
use crate::locks::protocol;
use history::{Acquire, Action, Down, Granted, Limit, Moment, Outcome, Refusal, Renew, Renewed};
use rand::RngExt;
use redis::Value;
use std::ops::Range;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::line;

/// A lease that is renewed soon, in milliseconds.
const LEASE: Range<u64> = 1_000..1_500;
/// How long most tasks hold the lock, and how long some.
const LENGTH: [Range<u64>; 2] = [0..60, 200..2_500];
/// How long a call is in line at most.
const WAIT: Range<u64> = 20..1_500;
/// A lease that outlives the run.
const LEFT_BEHIND: u64 = 60_000;
/// How long a client waits for the event beyond that.
const REPLY: Duration = Duration::from_secs(1);
/// How long it rests before it asks again.
const REST: Duration = Duration::from_millis(10);

/// An acquire, and the tries that were not answered.
struct Asks<'a> {
    key: &'a str,
    owner: &'a str,
    limit: Option<Limit>,
    lease: u64,
    unanswered: Vec<(Moment, Place)>,
}

/// The result of a try.
enum Asked {
    /// It is answered: what the call came to.
    Over(Moment, Outcome),
    /// It is in line.
    InLine,
    /// It is to be made again.
    Again,
}

impl Client<'_> {
    /// Queues for a lock, works under it, lets go.
    pub(super) fn queue(&mut self, program: &Program<'_>, other: &Program<'_>) {
        let (key, owner, limit) = (self.key(), self.owner(), self.limit());
        let lease = self.random.random_range(LEASE);
        let wait = Duration::from_millis(self.random.random_range(WAIT));
        let asked = self.stage.run.now();
        let asks = Asks {
            key: &key,
            owner: &owner,
            limit,
            lease,
            unanswered: Vec::new(),
        };
        if let Some((place, held)) = self.enter_by_queue(program, asks, wait) {
            if self.stage.habits.hurry && self.random.random_ratio(1, 4) {
                self.move_grant(other, place, &held);
            }
            self.work_in_session(program, place, &held);
        }
        self.renewed.push(Renewed {
            key,
            owner,
            span: self.stage.run.since(asked),
        });
    }

    fn enter_by_queue(
        &mut self,
        program: &Program<'_>,
        mut asks: Asks<'_>,
        wait: Duration,
    ) -> Option<(Place, Held)> {
        let end = Instant::now() + wait;
        let patience = end + REPLY;
        while let Some(place) = program.place(asks.key, patience) {
            let sent = self.stage.run.now();
            let left = end.saturating_duration_since(Instant::now());
            let (ended, outcome) = match self.ask_in_line(&mut asks, place, left) {
                Asked::Over(ended, outcome) => (ended, outcome),
                Asked::Again if Instant::now() > patience => break,
                Asked::Again => continue,
                Asked::InLine => match program.await_end(place, asks.key, asks.owner, patience) {
                    Next::Event(event) => {
                        self.stage.run.count("events of queued calls", 1);
                        (event.heard, self.outcome_of(&event, &asks))
                    }
                    Next::Gone => {
                        asks.unanswered.push((sent, place));
                        continue;
                    }
                    Next::Late => {
                        asks.unanswered.push((sent, place));
                        break;
                    }
                },
            };
            if outcome == Outcome::Untouched && Instant::now() < patience {
                self.record_queued(&asks, (sent, ended), place, Outcome::Untouched);
                continue;
            }
            return self.entered(&asks, (sent, ended), place, &outcome);
        }
        // Nobody waits for it any more.
        self.clean_up(asks.key, asks.owner);
        self.record_unanswered(&asks);
        None
    }

    /// Makes the call once in this session.
    fn ask_in_line(&mut self, asks: &mut Asks<'_>, place: Place, left: Duration) -> Asked {
        let action = action(asks, false);
        let mut command = protocol::command(asks.key, asks.owner, &action, 0);
        let left = left.as_millis().max(1).to_string();
        // In a hurry some calls wait on this connection, or not at all.
        let is_queued = !self.stage.habits.hurry || self.random.random_ratio(2, 3);
        if is_queued {
            let forever = self.stage.habits.hurry && self.random.random_ratio(1, 4);
            let wait = if forever { "0" } else { &left };
            command.arg("QUEUE").arg(wait);
        } else if self.random.random() {
            command.arg("BLOCK").arg(left);
        }
        command.arg("SESSION").arg(place.session);
        let mut heard = self.hear(asks.key, &command);
        if matches!(heard.what, Answer::Value(Value::Int(_))) && self.random.random_ratio(1, 4) {
            // As one whose reply was lost.
            asks.unanswered.push((heard.sent, place));
            heard = self.hear(asks.key, &command);
        }
        let span = (heard.sent, heard.ended);
        let asked = match heard.what {
            Answer::Value(Value::Int(_)) => Asked::InLine,
            Answer::Value(value) => Asked::Over(heard.ended, protocol::outcome(&action, value)),
            Answer::Error(error) if error.code() == "NOSESSION" => {
                sleep(REST);
                Asked::Again
            }
            Answer::Error(error) => match self.judge(&error) {
                Outcome::Refused(refusal) => Asked::Over(heard.ended, Outcome::Refused(refusal)),
                _ => Asked::Again,
            },
            Answer::Lost | Answer::GivenBack => {
                if is_queued {
                    asks.unanswered.push((heard.sent, place));
                }
                Asked::Again
            }
            Answer::Nothing => Asked::Again,
        };
        if !is_queued && matches!(asked, Asked::Again) {
            // The next try waits at a place of its own.
            self.record_queued(asks, span, place, Outcome::Lost);
        }
        asked
    }

    /// The meaning of an event for a queued call.
    fn outcome_of(&mut self, event: &Event, asks: &Asks<'_>) -> Outcome {
        match &event.what {
            What::Granted {
                token,
                holds,
                lease,
                limit,
            } => Outcome::Grant(Granted {
                token: *token,
                owner: asks.owner.to_owned(),
                holds: *holds,
                lease: *lease,
                limit: asks.limit.and(Some(*limit)),
            }),
            What::Ended(text) => {
                let code = text.split(' ').next().unwrap_or_default();
                match protocol::refusal(code) {
                    Some(refusal) => Outcome::Refused(refusal),
                    None if code == "timeout" => Outcome::Nil,
                    None if self.stage.is_passing(code) || matches!(code, "MOVED" | "ASK") => {
                        Outcome::Untouched
                    }
                    None => {
                        let run = &self.stage.run;
                        run.trouble(format!("{}: a queued call ended: {text}", asks.owner));
                        Outcome::Untouched
                    }
                }
            }
            What::Gone(_) => unreachable!("it is about a grant"),
        }
    }

    /// The call is over.
    fn entered(
        &mut self,
        asks: &Asks<'_>,
        (sent, ended): (Moment, Moment),
        place: Place,
        outcome: &Outcome,
    ) -> Option<(Place, Held)> {
        // Its place may be that of an earlier try.
        let tries = asks.unanswered.iter().filter(|(_, at)| *at == place);
        let first = tries.map(|(sent, _)| *sent).min().unwrap_or(sent);
        self.record_queued(asks, (first, ended), place, outcome.clone());
        let held = Held::of(asks.key, asks.owner, outcome);
        if held.is_none() && !asks.unanswered.is_empty() {
            self.clean_up(asks.key, asks.owner);
        }
        self.record_unanswered(asks);
        let held = held?;
        self.stage.run.count("queued grants", 1);
        Some((place, held))
    }

    fn record_unanswered(&mut self, asks: &Asks<'_>) {
        let ended = self.stage.run.now();
        for (sent, place) in &asks.unanswered {
            self.record_queued(asks, (*sent, ended), *place, Outcome::Lost);
        }
    }

    fn record_queued(
        &mut self,
        asks: &Asks<'_>,
        span: (Moment, Moment),
        place: Place,
        outcome: Outcome,
    ) {
        self.record(asks.key, asks.owner, action(asks, true), span, outcome);
        self.names_session(place.session, true);
    }

    /// Works until it is done or told of a loss; the server renews the lease.
    fn work_in_session(&mut self, program: &Program<'_>, place: Place, held: &Held) {
        let length = LENGTH[usize::from(self.random.random_ratio(1, 5))].clone();
        let length = Duration::from_millis(self.random.random_range(length));
        let length = if self.stage.habits.hurry {
            length / 10
        } else {
            length
        };
        let is_gone = || program.is_gone(place, &held.key, &held.owner, held.token);
        let began = Instant::now();
        while began.elapsed() < length && !is_gone() {
            if self.random.random_ratio(1, 6) {
                self.write(held);
            }
            self.pause(20);
        }
        if is_gone() {
            self.stage.run.count("losses told by a session", 1);
            self.write(held);
            self.clean_up(&held.key, &held.owner);
            return;
        }
        self.write(held);
        let outcome = self.release_in_session(place, held);
        match outcome {
            Outcome::Left(0) if began.elapsed() > Duration::from_millis(held.lease) => {
                self.stage.run.count("held beyond a lease in a session", 1);
            }
            Outcome::Left(_) => {}
            Outcome::Refused(Refusal::NotHeld | Refusal::NotOwner | Refusal::Fenced) => {
                let is_told = program.will_tell(place, (&held.key, &held.owner), held.token);
                if !is_told && !self.is_session_elsewhere(&held.key, place) {
                    let (key, token) = (&held.key, held.token);
                    let trouble =
                        format!("the session was not told of the loss of {token} on {key}");
                    self.stage.run.trouble(trouble);
                }
                self.clean_up(&held.key, &held.owner);
            }
            _ => self.clean_up(&held.key, &held.owner),
        }
    }

    /// Moves a grant into another program's session, or out of any.
    fn move_grant(&mut self, other: &Program<'_>, place: Place, held: &Held) {
        let session = other.session(place.node).filter(|_| self.random.random());
        let action = Action::Renew(Renew {
            lease: Some(session.map_or(20, |_| held.lease)),
            token: Some(held.token),
            ..Renew::default()
        });
        let mut command = protocol::command(&held.key, &held.owner, &action, 0);
        let id = session.unwrap_or(0);
        command.arg("SESSION").arg(id);
        let outcome = self.ask_so(&held.key, &held.owner, action, &command);
        self.names_session(id, false);
        if matches!(outcome, Outcome::Grant(_)) {
            self.stage.run.count("grants moved between sessions", 1);
        }
    }

    /// Takes each lock for so long that nobody else gets it, and queues a call behind in each of these sessions: the calls
    /// must end with their sessions.
    pub(crate) fn leave_behind(&mut self, programs: &[Program<'_>]) {
        for key in &self.stage.run.keys {
            let owner = self.owner();
            let outcome = self.acquire(key, &owner, None, LEFT_BEHIND, None);
            if matches!(outcome, Outcome::Grant(_)) {
                let node = self.stage.deployment.home(key);
                for session in programs.iter().filter_map(|program| program.session(node)) {
                    self.tasks += 1;
                    let call = format!("LOCK.ACQUIRE {key} {}", self.owner());
                    let call = format!("{call} HOLDS 1 QUEUE 0 SESSION {session}");
                    let heard = self.hear(key, &line(&call));
                    let is_in_line = matches!(heard.what, Answer::Value(Value::Int(_)));
                    let run = &self.stage.run;
                    run.count("calls left behind", u64::from(is_in_line));
                }
            }
            self.tasks += 1;
        }
    }

    /// Whether the server that has the key does not know the session. After a failover the old primary may answer the
    /// session's POLLs for a moment, and knows nothing of the loss.
    fn is_session_elsewhere(&mut self, key: &str, place: Place) -> bool {
        let command = line(&format!("LOCK.SESSION GRANTS {}", place.session));
        loop {
            match self.hear(key, &command).what {
                Answer::Value(_) => return false,
                Answer::Error(error) if error.code() == "NOSESSION" => return true,
                _ if self.stage.run.is_over() => return false,
                _ => sleep(REST),
            }
        }
    }

    fn release_in_session(&mut self, place: Place, held: &Held) -> Outcome {
        let action = Action::Release {
            down: Down::To(0),
            token: Some(held.token),
        };
        let mut command = protocol::command(&held.key, &held.owner, &action, 0);
        command.arg("SESSION").arg(place.session);
        self.ask_so(&held.key, &held.owner, action, &command)
    }
}

/// The request; as it is recorded, or as it is sent at first.
fn action(asks: &Asks<'_>, block: bool) -> Action {
    Action::Acquire(Acquire {
        limit: asks.limit,
        lease: Some(asks.lease),
        block,
        holds: Some(1),
        token: None,
    })
}
