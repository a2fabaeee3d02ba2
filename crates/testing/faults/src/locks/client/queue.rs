//! Programs that queue calls in a session: one connection polls it, is cut now and then, and freezes.

use super::Client;
use super::ask::What;
use super::keep::ended;
use super::task::Held;
use crate::locks::line::{Answer, Line};
use crate::locks::protocol::{self, Event};
use history::{Action, Call, Down, InSession, Kept, Limit, Moment, Outcome, Poll};
use rand::RngExt;
use redis::Value;
use std::collections::BTreeSet;
use std::ops::Range;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::Expect;

/// Soon renewed, in milliseconds.
const LEASE: Range<u64> = 1_000..3_000;
/// How long a call is in line at most.
const WAIT: Range<u64> = 50..3_000;
/// How long a grant is kept.
const LENGTH: Range<u64> = 0..400;
/// And now and then, so that its lease ends unless it is renewed.
const LONG: Range<u64> = 1_000..4_000;
/// How long a POLL waits.
const POLL: u64 = 200;
/// Longer than a program may be silent.
const FROZEN: Range<u64> = 1_100..2_200;

/// A program's session.
struct Session {
    id: u64,
    line: Line,
}

/// A grant of a session.
struct Mine {
    held: Held,
    until: Instant,
    kept: Kept,
}

impl Client<'_> {
    /// Queues calls for a few locks, each by an owner of its own, and works where it is granted one.
    pub(super) fn queue(&mut self) {
        let Some(mut session) = self.open_session() else {
            return self.pause(20);
        };
        let keys: BTreeSet<_> = (0..self.random.random_range(1..4))
            .map(|_| self.key())
            .collect();
        let (mut queued, mut mine) = (Vec::new(), Vec::new());
        for key in keys {
            let owner = format!("{}:{key}", self.owner());
            match self.ask_to_queue(&key, owner, session.id) {
                Some(call) if call.ended == Moment::MAX => queued.push(call),
                Some(call) => mine.extend(self.granted(call)),
                None => {}
            }
        }
        while !(self.stage.run.is_over() || queued.is_empty() && mine.is_empty()) {
            self.disturb(&mut session);
            let Some(events) = self.poll(&mut session) else {
                break;
            };
            for (key, event) in events {
                self.hear_of(&key, event, &mut queued, &mut mine);
            }
            let over = mine.extract_if(.., |mine: &mut Mine| mine.until <= Instant::now());
            for mut mine in over.collect::<Vec<_>>() {
                self.write(&mine.held);
                self.let_go(&mut mine);
            }
        }
        for mut mine in mine {
            self.let_go(&mut mine);
        }
        for call in queued {
            // It may have been granted, unheard.
            self.clean_up(&call.key, &call.owner);
            let now = self.stage.run.now();
            let call = self.end(call, Outcome::Lost, now);
            self.kept.push(Kept {
                key: call.key,
                owner: call.owner,
                token: None,
                asked: call.sent,
                since: now,
                heard: None,
                until: now,
            });
        }
        let close = redis::cmd("LOCK.SESSION")
            .arg("CLOSE")
            .arg(session.id)
            .to_owned();
        session.line.ask(&close);
        session.line.close(self.stage);
    }

    fn open_session(&mut self) -> Option<Session> {
        let mut line = Line::open(self.stage, 0, self.number, true)?;
        let sent = self.stage.run.now();
        let Answer::Value(id) = line.ask(redis::cmd("LOCK.SESSION").arg("OPEN")) else {
            line.close(self.stage);
            return None;
        };
        let id = u64::try_from(id.int()).expect("an id");
        self.record_poll(id, &line, sent, Some(-1), Vec::new());
        Some(Session { id, line })
    }

    fn record_poll(
        &mut self,
        session: u64,
        line: &Line,
        sent: Moment,
        sure: Option<i64>,
        gone: Vec<(String, u64)>,
    ) {
        self.polls.push(Poll {
            session,
            connection: line.number(),
            sent,
            ended: self.stage.run.now(),
            sure,
            gone,
        });
    }

    /// Queues a call, which is repeated now and then. A call that is in line has not ended yet.
    fn ask_to_queue(&mut self, key: &str, owner: String, session: u64) -> Option<Call> {
        let action = Action::Acquire {
            limit: self.limit(),
            lease: Some(self.random.random_range(LEASE)),
            block: true,
            holds: Some(1),
            token: None,
        };
        let wait = self.random.random_range(WAIT);
        let command = protocol::queue(key, &owner, &action, wait, session);
        let mut call = Call {
            client: self.number,
            key: key.to_owned(),
            owner,
            action,
            sent: self.stage.run.now(),
            ended: Moment::MAX,
            outcome: Outcome::Lost,
            session: Some(InSession {
                id: session,
                queued: true,
            }),
        };
        for _ in 0..10 {
            let heard = self.hear(key, &command);
            let outcome = match heard.what {
                What::Value(Value::Int(_)) if self.random.random_ratio(3, 4) => return Some(call),
                What::Value(Value::Int(_)) | What::Lost | What::GivenBack => continue,
                What::Value(value) => protocol::outcome(&call.action, value),
                What::Error(error) => self.judge(&error),
                What::Nothing => Outcome::Untouched,
            };
            call.session = Some(InSession {
                id: session,
                queued: false,
            });
            (call.ended, call.outcome) = (heard.ended, outcome);
            self.calls.push(call.clone());
            let is_granted = matches!(call.outcome, Outcome::Grant { .. });
            return is_granted.then_some(call);
        }
        Some(call)
    }

    /// What becomes of a call that was granted.
    fn granted(&mut self, call: Call) -> Option<Mine> {
        let Outcome::Grant {
            token,
            holds,
            lease,
            limit,
            ..
        } = call.outcome
        else {
            return None;
        };
        let is_long = self.random.random_ratio(1, 5);
        let length = if is_long { LONG } else { LENGTH };
        let length = Duration::from_millis(self.random.random_range(length));
        Some(Mine {
            held: Held {
                key: call.key.clone(),
                owner: call.owner.clone(),
                token,
                holds,
                lease,
                limit: limit.or(Some(Limit::ONE)),
            },
            until: Instant::now() + length,
            kept: Kept {
                key: call.key,
                owner: call.owner,
                token: Some(token),
                asked: call.sent,
                since: call.ended,
                heard: None,
                until: Moment::MAX,
            },
        })
    }

    /// Cuts the connection that polls, or freezes.
    fn disturb(&mut self, session: &mut Session) {
        match self.random.random_range(0..40) {
            0 => {
                let frozen = self.random.random_range(FROZEN);
                self.stage.run.count("frozen programs", 1);
                sleep(Duration::from_millis(frozen));
            }
            1 | 2 => {
                if let Some(line) = Line::open(self.stage, 0, self.number, true) {
                    let before = std::mem::replace(&mut session.line, line);
                    // Half of them close before the new one polls.
                    before.close(self.stage);
                    self.stage.run.count("cut programs", 1);
                    self.pause(300);
                }
            }
            _ => {}
        }
    }

    /// What is new; none where the session is gone, or its connection.
    fn poll(&mut self, session: &mut Session) -> Option<Vec<(String, Event)>> {
        let mut poll = redis::cmd("LOCK.SESSION");
        poll.arg("POLL").arg(session.id).arg("BLOCK").arg(POLL);
        let sent = self.stage.run.now();
        let Answer::Value(reply) = session.line.ask(&poll) else {
            self.record_poll(session.id, &session.line, sent, None, Vec::new());
            return None;
        };
        let mut fields = reply.fields();
        let sure = fields.remove("sure-ms").expect("what is sure").int();
        let events = fields.remove("events").expect("events").items();
        let events: Vec<_> = events.into_iter().map(protocol::event).collect();
        let gone = events.iter().filter_map(|(key, event)| match event {
            Event::Gone(token) => Some((key.clone(), *token)),
            _ => None,
        });
        let gone = gone.collect();
        self.record_poll(session.id, &session.line, sent, Some(sure), gone);
        Some(events)
    }

    fn hear_of(&mut self, key: &str, event: Event, queued: &mut Vec<Call>, mine: &mut Vec<Mine>) {
        let at = self.polls.last().map_or(0, |poll| poll.ended);
        let place = queued.iter().position(|call| call.key == key);
        match (event, place) {
            (Event::Granted(outcome), Some(place)) => {
                let call = self.end(queued.remove(place), outcome, at);
                self.stage.run.count("queued grants", 1);
                mine.extend(self.granted(call));
            }
            (Event::Ended(text), Some(place)) => {
                let code = text.split(' ').next().unwrap_or_default();
                let outcome = match protocol::refusal(code) {
                    Some(refusal) => Outcome::Refused(refusal),
                    None if matches!(code, "timeout" | "cancelled") => Outcome::Nil,
                    None => Outcome::Untouched,
                };
                self.end(queued.remove(place), outcome, at);
            }
            (Event::Gone(token), _) => {
                let lost = mine.extract_if(.., |mine: &mut Mine| mine.held.token == token);
                for mine in lost.collect::<Vec<_>>() {
                    self.stage.run.count("losses that were told", 1);
                    self.write(&mine.held);
                    self.kept.push(ended(mine.kept, self.stage));
                }
            }
            // A repeated call has been answered so already.
            (Event::Granted(_) | Event::Ended(_), None) => {}
        }
    }

    /// A queued call has ended.
    fn end(&mut self, mut call: Call, outcome: Outcome, at: Moment) -> Call {
        (call.ended, call.outcome) = (at, outcome);
        self.calls.push(call.clone());
        call
    }

    fn let_go(&mut self, mine: &mut Mine) {
        let Held {
            key, owner, token, ..
        } = &mine.held;
        if self.release(key, owner, Down::All, Some(*token)) == Outcome::Lost {
            self.clean_up(key, owner);
        }
        self.kept.push(ended(mine.kept.clone(), self.stage));
    }
}
