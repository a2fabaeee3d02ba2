//! Replies and events, and what they say of waits and grants.

use super::super::{LEASE, Reply, Rule, What};
use super::{Outbox, Program, Purpose, Stage};

impl Program {
    /// A reply has come.
    pub(crate) fn reply(&mut self, outbox: &mut Outbox, number: u64, reply: Reply) {
        let Some(call) = self.under_way.get(&number) else {
            return; // given up
        };
        let sent = call.sent;
        match &call.purpose {
            Purpose::Open => {
                if let Reply::Session(session) = reply {
                    self.session = Some(session);
                    self.seen = 0;
                    self.excess_since = None;
                }
            }
            Purpose::Poll { session, known } => {
                let (session, known) = (*session, known.clone());
                if !self.poll_answered(outbox, (session, sent), &known, reply) {
                    self.under_way.remove(&number);
                    self.reconnect(outbox);
                }
            }
            Purpose::Ask { owner, session } => {
                let (owner, session) = (*owner, *session);
                self.asked(owner, session, sent, &reply);
            }
            Purpose::Move(moved) => {
                let moved = *moved;
                let claim = self.claims.get_mut(&moved.owner);
                match (reply, claim.filter(|it| it.token == moved.token)) {
                    (Reply::Grant(_), Some(claim)) => {
                        claim.session = moved.session;
                        claim.sure = claim.sure.max(sent + claim.lease);
                    }
                    (Reply::Gone, Some(_)) => self.lose(moved.owner, false),
                    (Reply::NoSession, _) => self.session = None,
                    _ => {}
                }
            }
            Purpose::Finish(release) => {
                let release = *release;
                if matches!(reply, Reply::Released | Reply::Gone) {
                    self.unfinished.remove(&release);
                }
            }
            Purpose::Grants { called_before } => {
                let called_before = called_before.clone();
                self.excess_since = None;
                if let Reply::Listed(grants) = reply {
                    for (owner, token) in grants {
                        let of_any = self.obeys(Rule::WaitsAreNoStrays);
                        let claim = self.claims.get(&owner);
                        let is_known = claim.is_some_and(|it| of_any || it.token == token)
                            || of_any && (called_before.contains(&owner) || self.uses(owner));
                        if !is_known {
                            self.unfinished.insert((owner, Some(token), None));
                        }
                    }
                }
            }
            Purpose::Release((owner, ..), true) => {
                self.release_answers.insert(*owner, true);
            }
            Purpose::Release(_, false) => {}
        }
        self.under_way.remove(&number);
        let first = self.under_way.keys().next().copied().unwrap_or(u64::MAX);
        self.losses.retain(|_, last| *last >= first);
    }

    /// False when the connection is of no more use.
    fn poll_answered(
        &mut self,
        outbox: &Outbox,
        (session, sent): (u64, u64),
        known: &[(u64, u64)],
        reply: Reply,
    ) -> bool {
        match reply {
            Reply::Polled {
                sure_ms,
                grants,
                events,
            } => {
                self.pause = 0;
                let sure = sent + sure_ms.unwrap_or(LEASE);
                for event in events {
                    if event.number > self.seen {
                        self.seen = event.number;
                        self.event((session, sure), event.owner, event.what, outbox.last);
                    }
                }
                self.polled((session, sure), known);
                let here = self.in_session();
                let here = here.filter(|(_, it)| it.session == Some(session));
                let has_more = grants > here.count() + self.unfinished.len();
                let since = self.excess_since.unwrap_or(sent);
                self.excess_since = has_more.then_some(since);
                self.silent(sent);
                true
            }
            Reply::NoSession => {
                self.session = None;
                true
            }
            _ => false,
        }
    }

    fn asked(&mut self, owner: u64, session: u64, sent: u64, reply: &Reply) {
        if let Some(claim) = self.claims.get_mut(&owner) {
            claim.is_asking = false;
            claim.open = claim.open.saturating_sub(1); // not its own, where owners are reused
        }
        if let Reply::Grant(token) = *reply {
            let lease = self.claims.get(&owner).map_or(LEASE, |it| it.lease);
            if !self.granted(owner, token, session, sent + lease) {
                self.unfinished.insert((owner, Some(token), None));
            }
            return;
        }
        let is_current = self.session == Some(session);
        let Some(claim) = self.claims.get_mut(&owner) else {
            if matches!(reply, Reply::Place) {
                self.unfinished.insert((owner, None, None));
            }
            return;
        };
        if !matches!(claim.stage, Stage::Asked | Stage::InLine) {
            return;
        }
        match reply {
            Reply::Place if is_current => {
                claim.stage = Stage::InLine;
                claim.session = Some(session);
            }
            Reply::Busy => claim.stage = Stage::Over,
            Reply::NoSession => claim.no_session = Some(session),
            _ => {}
        }
    }

    /// False when the grant is to be given back.
    fn granted(&mut self, owner: u64, token: u64, session: u64, sure: u64) -> bool {
        let is_lost = self.losses.contains_key(&token) && self.obeys(Rule::LossBeforeGrant);
        let Some(claim) = self.claims.get_mut(&owner) else {
            return is_lost;
        };
        let waits = matches!(claim.stage, Stage::Asked | Stage::InLine);
        if is_lost {
            if waits {
                claim.stage = Stage::Asked;
            }
            return true;
        }
        if !waits && claim.stage != Stage::Held {
            return false;
        }
        if token < claim.token {
            return true; // an earlier one, told late
        }
        if token > claim.token && claim.is_handed_over {
            return false;
        }
        let before = if token == claim.token { claim.sure } else { 0 };
        claim.sure = before.max(sure);
        claim.stage = Stage::Held;
        claim.token = token;
        claim.session = Some(session);
        true
    }

    fn event(&mut self, (session, sure): (u64, u64), owner: u64, what: What, last_call: u64) {
        match what {
            What::Granted(token) => {
                if !self.granted(owner, token, session, sure) && !self.uses(owner) {
                    self.unfinished.insert((owner, Some(token), None));
                }
            }
            What::Ended => {
                if let Some(claim) = self.claims.get_mut(&owner)
                    && matches!(claim.stage, Stage::Asked | Stage::InLine)
                {
                    claim.stage = Stage::Over;
                }
            }
            // Its program has taken it out.
            What::Taken(token)
                if self
                    .claims
                    .get(&owner)
                    .is_some_and(|it| it.is_fixed() && it.token == token) => {}
            What::Lost(token) | What::Taken(token) => {
                self.heard.insert(token);
                if !self.under_way.is_empty() {
                    self.losses.insert(token, last_call);
                }
                self.unfinished.remove(&(owner, Some(token), None));
                let claim = self.claims.get(&owner);
                if claim.is_some_and(|it| it.stage == Stage::Held && it.token == token) {
                    self.lose(owner, false);
                }
            }
        }
    }

    /// The reply to a POLL counts for these grants.
    fn polled(&mut self, (session, sure): (u64, u64), known: &[(u64, u64)]) {
        let of_any = !self.obeys(Rule::PollOfThisSession);
        let of_new = !self.obeys(Rule::KnownWhenSent);
        for (owner, claim) in &mut self.claims {
            let is_of_this = of_any || claim.session == Some(session);
            let is_known = of_new || known.contains(&(*owner, claim.token));
            if claim.stage == Stage::Held && is_of_this && is_known {
                claim.sure = claim.sure.max(sure);
            }
        }
    }

    /// A try that began then has made these grants not sure again.
    pub(super) fn silent(&mut self, since: u64) {
        let silent = self.in_session().filter(|(_, claim)| claim.sure < since);
        let silent: Vec<_> = silent.map(|(owner, it)| (*owner, it.token)).collect();
        for (owner, token) in silent {
            self.unfinished.insert((owner, Some(token), None));
            self.lose(owner, true);
        }
    }

    fn lose(&mut self, owner: u64, by_silence: bool) {
        let claim = self.claims.get_mut(&owner).expect("a claim");
        if claim.stage == Stage::Held {
            claim.stage = Stage::Lost;
            self.told.push((claim.token, by_silence));
        }
    }
}
