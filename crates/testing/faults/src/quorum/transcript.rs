//! What all contenders have told, as a history that can be checked.

use super::note::{Event, Note, Release};
use super::process::Record;
use crate::run::Run;
use history::{Action, Call, Down, History, Moment, Outcome, Refusal, Register, Span, Trust};
use history::{Write, Written};
use std::collections::HashMap;

/// How much longer than it was ready to wait a caller may have to, while the machine is busy.
const SLACK: Moment = 2_500_000;

/// One contender's notes, as they are read.
struct Reading<'a> {
    record: &'a Record,
    run: &'a Run,
    history: &'a mut History,
    /// No lock may be lost before the end of what was told of it.
    strict: bool,
    /// By task.
    asked: HashMap<u32, (String, Moment)>,
    trusted: HashMap<u32, Trust>,
    /// Releases that were begun: the lock, the owner and the moment.
    releasing: HashMap<u32, (String, String, Moment)>,
}

/// Puts all that was told together. What is wrong besides the history is noted in the run. With `strict`,
/// nobody may lose a lock before its time.
pub(crate) fn read(records: &[Record], run: &Run, strict: bool) -> History {
    let mut history = History::default();
    for record in records {
        let mut reading = Reading {
            record,
            run,
            history: &mut history,
            strict,
            asked: HashMap::new(),
            trusted: HashMap::new(),
            releasing: HashMap::new(),
        };
        for note in &record.notes {
            reading.take(note);
        }
        reading.end();
    }
    history
}

impl Reading<'_> {
    fn take(&mut self, note: &Note) {
        let Note { task, key, event } = note;
        match event {
            Event::Asks { sent, patience } => {
                self.asked.insert(*task, (key.clone(), sent + patience));
            }
            Event::Granted {
                owner,
                token,
                lease,
                sent,
                ended,
                until,
            } => {
                // When it may trust the lock no more it gives it back, before the servers would take it
                // away: what counts is that time, not the lease.
                let trusted = until.saturating_sub(*sent) / 1000;
                let outcome = Outcome::Grant {
                    token: *token,
                    owner: owner.clone(),
                    holds: 1,
                    lease: trusted.min(*lease),
                };
                self.acquire(note, owner, *lease, (*sent, *ended), outcome);
                let trust = Trust {
                    key: key.clone(),
                    token: *token,
                    span: self.span(*ended, *until),
                };
                self.trusted.insert(*task, trust);
            }
            Event::Denied {
                sent,
                ended,
                reason,
            } => {
                let outcome = if reason.is_some() {
                    Outcome::Lost
                } else {
                    Outcome::Nil
                };
                self.acquire(note, "", 0, (*sent, *ended), outcome);
                let reason = reason.as_deref().unwrap_or("not free in time");
                self.run.count(&format!("not obtained: {reason}"), 1);
            }
            Event::Trusts { until, .. } => {
                let until = until - self.run.origin();
                if let Some(trust) = self.trusted.get_mut(task) {
                    trust.span.to = trust.span.to.max(until);
                }
            }
            Event::Lost { token, at } => self.lost(*task, *token, *at),
            Event::Wrote {
                token,
                sent,
                ended,
                taken,
            } => {
                let Span { from, to } = self.span(*sent, *ended);
                self.history.writes.push(Write {
                    register: Register::Sql,
                    key: key.clone(),
                    token: *token,
                    sent: from,
                    ended: to,
                    written: if *taken {
                        Written::Taken
                    } else {
                        Written::Refused
                    },
                });
            }
            Event::GivesBack { owner, sent } => {
                if let Some(mut trust) = self.trusted.remove(task) {
                    trust.span.to = trust.span.to.min(sent - self.run.origin());
                    self.history.trusts.push(trust);
                }
                let releasing = (key.clone(), owner.clone(), *sent);
                self.releasing.insert(*task, releasing);
            }
            Event::Released {
                owner,
                sent,
                ended,
                release,
            } => {
                self.releasing.remove(task);
                let outcome = match release {
                    Release::Done => Outcome::Left(0),
                    Release::Late => Outcome::Refused(Refusal::NotHeld),
                    Release::Unknown => Outcome::Lost,
                };
                self.released((*task, key), owner, (*sent, *ended), outcome);
            }
        }
    }

    /// Told that it has lost what it could still trust.
    fn lost(&mut self, task: u32, token: u64, at: Moment) {
        let at = at - self.run.origin();
        let Some(trust) = self.trusted.get_mut(&task) else {
            return;
        };
        if self.strict && at < trust.span.to {
            let text = format!(
                "token {token} of {} was lost {} us before its time",
                trust.key,
                trust.span.to - at
            );
            self.run.trouble(text);
        }
        trust.span.to = trust.span.to.min(at);
    }

    fn acquire(
        &mut self,
        note: &Note,
        owner: &str,
        lease: u64,
        (sent, ended): (Moment, Moment),
        outcome: Outcome,
    ) {
        let action = Action::Acquire {
            lease: Some(lease),
            block: true,
            holds: None,
            token: None,
        };
        self.call(
            (note.task, &note.key),
            owner,
            action,
            (sent, ended),
            outcome,
        );
        let Some((key, limit)) = self.asked.remove(&note.task) else {
            return;
        };
        let stopped: Moment = self
            .record
            .stops
            .iter()
            .map(|(from, to)| ended.min(*to).saturating_sub(sent.max(*from)))
            .sum();
        if ended > limit + stopped + SLACK {
            let late = ended - limit - stopped;
            let text = format!("an answer about {key} came {late} us later than it should");
            self.run.trouble(text);
        }
    }

    fn released(
        &mut self,
        who: (u32, &str),
        owner: &str,
        (sent, ended): (Moment, Moment),
        outcome: Outcome,
    ) {
        let action = Action::Release {
            down: Down::All,
            token: None,
        };
        self.call(who, owner, action, (sent, ended), outcome);
    }

    fn call(
        &mut self,
        (task, key): (u32, &str),
        owner: &str,
        action: Action,
        (sent, ended): (Moment, Moment),
        outcome: Outcome,
    ) {
        let Span { from, to } = self.span(sent, ended);
        self.history.calls.push(Call {
            client: self.record.number * 100 + task,
            key: key.to_owned(),
            owner: owner.to_owned(),
            action,
            sent: from,
            ended: to,
            outcome,
        });
    }

    /// What is open when all is told: killed contenders hold on to their locks until these end.
    fn end(mut self) {
        let trusted = std::mem::take(&mut self.trusted).into_values();
        self.history.trusts.extend(trusted);
        // Killed in the middle of it: nobody knows when the servers will have seen it.
        for (task, (key, owner, sent)) in std::mem::take(&mut self.releasing) {
            self.released((task, &key), &owner, (sent, Moment::MAX), Outcome::Lost);
        }
        if self.record.was_killed {
            return;
        }
        if !self.record.has_ended_well {
            let text = format!("contender {} did not end well", self.record.number);
            self.run.trouble(text);
        }
        for (key, _) in self.asked.into_values() {
            let text = format!("an acquire of {key} never came back");
            self.run.trouble(text);
        }
    }

    fn span(&self, from: Moment, to: Moment) -> Span {
        Span {
            from: from - self.run.origin(),
            to: to - self.run.origin(),
        }
    }
}

#[cfg(test)]
mod tests;
