//! The loop: what is due, the POLL, and calls whose reply does not come.

use super::super::{LEASE, REPLY, Request, Rule};
use super::{Call, Outbox, Program, Purpose, Stage, moved};

impl Program {
    /// Calls without a reply are given up, and the loop continues.
    pub(crate) fn go_on(&mut self, outbox: &mut Outbox) {
        let now = outbox.now;
        for number in self.numbers(|call| call.due <= now) {
            let Some(call) = self.under_way.remove(&number) else {
                continue; // it was on the loop's connection
            };
            if call.is_of_loop {
                let began = call.sent;
                self.unanswered(&call);
                self.reconnect(outbox);
                self.silent(began);
            } else {
                outbox.closed.push(call.connection);
                self.unanswered(&call);
            }
        }
        if !self.obeys(Rule::SilenceAfterSure) {
            self.silent(now);
        }
        if self.connection.is_none() && now >= self.next_try {
            self.connection = Some(outbox.next());
            self.has_sent_due = false;
        }
        let is_answered = !self.under_way.values().any(|call| call.is_of_loop);
        if let Some(connection) = self.connection.filter(|_| is_answered) {
            self.turn(outbox, connection);
        }
    }

    /// The numbers of such calls under way.
    fn numbers(&self, which: impl Fn(&Call) -> bool) -> Vec<u64> {
        let calls = self.under_way.iter().filter(|(_, call)| which(call));
        calls.map(|(number, _)| *number).collect()
    }

    fn turn(&mut self, outbox: &mut Outbox, connection: u64) {
        let now = outbox.now;
        let on = |time| (Some(connection), time);
        let Some(session) = self.session else {
            return self.send(outbox, (Purpose::Open, Request::Open), on(REPLY));
        };
        if !std::mem::replace(&mut self.has_sent_due, true) {
            let due = self.due(session, now);
            if !due.is_empty() {
                for it in due {
                    self.send(outbox, it, on(REPLY));
                }
                return;
            }
        }
        self.has_sent_due = false;
        let is_unsure = self.in_session().any(|(_, claim)| claim.sure <= now);
        let block = if is_unsure { 100 } else { LEASE / 3 };
        let of_any = !self.obeys(Rule::PollOfThisSession);
        let known = self.in_session();
        let known = known.filter(|(_, claim)| of_any || claim.session == Some(session));
        let known = known.map(|(owner, claim)| (*owner, claim.token)).collect();
        let purpose = Purpose::Poll { session, known };
        let request = Request::Poll { session, block };
        self.send(outbox, (purpose, request), on(block + REPLY));
    }

    /// The commands to send before a POLL.
    fn due(&mut self, session: u64, now: u64) -> Vec<(Purpose, Request)> {
        let mut due = Vec::new();
        for (owner, claim) in &mut self.claims {
            let (owner, token) = (*owner, claim.token);
            match claim.stage {
                Stage::Held if claim.session.is_some_and(|it| it != session) => {
                    due.push(moved(owner, Some(session), token));
                }
                Stage::InLine
                    if claim.session != Some(session) && claim.end() > now && !claim.is_asking =>
                {
                    let request = claim.ask(owner, session, now);
                    due.push((Purpose::Ask { owner, session }, request));
                }
                _ => {}
            }
        }
        due.extend(self.unfinished.iter().map(|release| self.finish(*release)));
        let has_strays = self.excess_since.is_some_and(|since| now > since + LEASE);
        if has_strays && self.obeys(Rule::Strays) {
            let called_before = self.under_way.values().filter_map(Call::owner).collect();
            let purpose = Purpose::Grants { called_before };
            due.push((purpose, Request::Grants { session }));
        }
        due
    }

    pub(super) fn reconnect(&mut self, outbox: &mut Outbox) {
        outbox.closed.extend(self.connection.take());
        self.next_try = outbox.now + self.pause;
        self.pause = (2 * self.pause).clamp(50, 1000);
        for number in self.numbers(|call| call.is_of_loop) {
            let call = self.under_way.remove(&number).expect("a call");
            self.unanswered(&call);
        }
    }

    fn unanswered(&mut self, call: &Call) {
        match call.purpose {
            Purpose::Ask { owner, .. } => {
                if let Some(claim) = self.claims.get_mut(&owner) {
                    claim.is_asking = false;
                    claim.is_unanswered = true;
                }
            }
            Purpose::Release((owner, ..), true) => {
                self.release_answers.insert(owner, false);
            }
            Purpose::Release(release, false) => {
                self.unfinished.insert(release);
            }
            _ => {}
        }
    }
}
