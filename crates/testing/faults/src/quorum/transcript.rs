//! The reports of all contenders, as a history that can be checked.

use super::event::Event;
use super::process::Record;
use crate::run::Run;
use history::{Action, Call, Granted, History, Moment, Outcome, Span, Trust};
use std::collections::HashMap;

/// How much longer than it was ready to wait a caller may have to, while the machine is busy.
const SLACK: Moment = 2_500_000;

/// The reports of one contender, as they are read.
struct Reading<'a> {
    record: &'a Record,
    run: &'a Run,
    history: &'a mut History,
    /// No lock may be lost before the end of what was told of it.
    strict: bool,
    /// By task: its call, and until when it is ready to wait.
    under_way: HashMap<u32, (Call, Moment)>,
    /// By task: its lock.
    trusted: HashMap<u32, Trust>,
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
            under_way: HashMap::new(),
            trusted: HashMap::new(),
        };
        for event in &record.events {
            reading.take(event);
        }
        reading.end();
    }
    history
}

impl Reading<'_> {
    fn take(&mut self, event: &Event) {
        match event {
            Event::Sends { call, patience } => {
                if matches!(call.action, Action::Release { .. })
                    && let Some(mut trust) = self.trusted.remove(&call.client)
                {
                    trust.span.to = trust.span.to.min(call.sent);
                    self.history.trusts.push(trust);
                }
                let limit = call.sent + patience;
                self.under_way.insert(call.client, (call.clone(), limit));
            }
            Event::Ends { call, reason } => {
                self.ended(call, reason.as_deref());
                self.history.calls.push(call.clone());
            }
            Event::Trusts { client, until } => {
                if let Some(trust) = self.trusted.get_mut(client) {
                    trust.span.to = trust.span.to.max(*until);
                }
            }
            Event::Lost { client, at } => self.lost(*client, *at),
            Event::Wrote(write) => self.history.writes.push(write.clone()),
        }
    }

    fn ended(&mut self, call: &Call, reason: Option<&str>) {
        let under_way = self.under_way.remove(&call.client);
        let Action::Acquire(_) = call.action else {
            return;
        };
        if let Outcome::Grant(Granted { token, .. }) = call.outcome {
            let trust = Trust {
                key: call.key.clone(),
                token,
                span: Span {
                    from: call.ended,
                    to: call.ended,
                },
            };
            self.trusted.insert(call.client, trust);
        } else {
            let reason = reason.unwrap_or("not free in time");
            self.run.count(&format!("not obtained: {reason}"), 1);
        }
        let stops = self.record.stops.iter();
        let stopped = stops
            .map(|(from, to)| call.ended.min(*to).saturating_sub(call.sent.max(*from)))
            .sum::<Moment>();
        if let Some((_, limit)) = under_way
            && call.ended > limit + stopped + SLACK
        {
            let (key, late) = (&call.key, call.ended - limit - stopped);
            let text = format!("an answer about {key} came {late} us later than it should");
            self.run.trouble(text);
        }
    }

    /// Told that it has lost what it could still trust.
    fn lost(&mut self, client: u32, at: Moment) {
        let Some(trust) = self.trusted.get_mut(&client) else {
            return;
        };
        if self.strict && at < trust.span.to {
            let (token, key, early) = (trust.token, &trust.key, trust.span.to - at);
            let text = format!("token {token} of {key} was lost {early} us before its time");
            self.run.trouble(text);
        }
        trust.span.to = trust.span.to.min(at);
    }

    /// The open grants at the end of all reports: killed contenders hold their locks until these end.
    fn end(self) {
        self.history.trusts.extend(self.trusted.into_values());
        for (call, _) in self.under_way.into_values() {
            match call.action {
                // Killed in the middle of it: nobody knows when the servers will have seen it.
                Action::Release { .. } => self.history.calls.push(call),
                _ if self.record.was_killed => {}
                _ => {
                    let text = format!("an acquire of {} never returned", call.key);
                    self.run.trouble(text);
                }
            }
        }
        if !self.record.was_killed && !self.record.has_ended_well {
            let number = self.record.number;
            self.run
                .trouble(format!("contender {number} did not end well"));
        }
    }
}

#[cfg(test)]
mod tests;
