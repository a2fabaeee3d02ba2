//! The state of a `Locks`, and how replies and events change it: no I/O here.

use crate::locks::Name;
use crate::replies::{Error, token_of};
use redis::Value as Reply;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};
use testbed::Expect;

/// One acquire: first a wait, then a grant.
pub(super) struct Claim {
    /// The trial's name of the grant.
    number: u64,
    pub(super) stage: Stage,
    /// Where it waits, or what renews it.
    pub(super) session: Option<u64>,
    pub(super) is_handed_over: bool,
}

/// How far it has come.
pub(super) enum Stage {
    Asked,
    InLine,
    Held { token: u64, sure: Instant },
    Over(Error),
}

/// All claims, and the session.
#[derive(Default)]
pub(super) struct State {
    pub(super) session: Option<u64>,
    seen: i64,
    pub(super) claims: HashMap<Name, Claim>,
    /// Acquires without a reply.
    pub(super) under_way: usize,
    /// The tokens of losses that were reported meanwhile.
    pub(super) losses: HashSet<u64>,
    pub(super) strays_since: Option<Instant>,
    /// Releases without a reply, which the loop sends from then on.
    pub(super) unfinished: Vec<Vec<String>>,
    /// With what the server refuses a session.
    pub(super) refused: Option<Error>,
}

impl Claim {
    pub(super) fn new(number: u64) -> Self {
        Self {
            number,
            stage: Stage::Asked,
            session: None,
            is_handed_over: false,
        }
    }

    pub(super) fn token(&self) -> Option<u64> {
        match self.stage {
            Stage::Held { token, .. } => Some(token),
            _ => None,
        }
    }

    /// Held, and sure to be.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.stage, Stage::Held { sure, .. } if sure > Instant::now())
    }
}

impl State {
    pub(super) fn opened(&mut self, session: u64) {
        self.session = Some(session);
        self.seen = 0;
        self.strays_since = None;
        self.ask_again();
    }

    /// All waits are asked again.
    pub(super) fn ask_again(&mut self) -> Vec<Name> {
        let in_line = self.claims.iter_mut();
        let in_line = in_line.filter(|(_, claim)| matches!(claim.stage, Stage::InLine));
        in_line
            .map(|(name, claim)| {
                claim.stage = Stage::Asked;
                name.clone()
            })
            .collect()
    }

    pub(super) fn in_line(&mut self, name: &Name, session: u64) {
        let is_current = self.session == Some(session);
        if let Some(claim) = self.claims.get_mut(name)
            && matches!(claim.stage, Stage::Asked)
            && is_current
        {
            claim.stage = Stage::InLine;
        }
    }

    /// An acquire has been answered. No later reply can name the losses before the last of them.
    pub(super) fn answered(&mut self) {
        self.under_way -= 1;
        if self.under_way == 0 {
            self.losses.clear();
        }
    }

    pub(super) fn granted(&mut self, name: &Name, token: u64, session: u64, sure: Instant) {
        let is_lost = self.losses.contains(&token);
        let Some(claim) = self.claims.get_mut(name) else {
            return; // Given up: its release is under way, or it is a stray.
        };
        match &mut claim.stage {
            Stage::Asked | Stage::InLine if is_lost => claim.stage = Stage::Asked,
            Stage::Asked | Stage::InLine => {
                claim.stage = Stage::Held { token, sure };
                claim.session = Some(session);
            }
            Stage::Held { token: known, .. } if *known >= token || claim.is_handed_over => {}
            Stage::Held { .. } => claim.stage = Stage::Held { token, sure },
            Stage::Over(_) => {}
        }
    }

    /// A renewal has been answered: the grant is in this session.
    pub(super) fn renewed(&mut self, name: &Name, session: Option<u64>, until: Instant) {
        if let Some(claim) = self.claims.get_mut(name)
            && let Stage::Held { sure, .. } = &mut claim.stage
        {
            claim.session = session;
            *sure = until;
        }
    }

    /// The grants that are in another session. Fixed leases are in none.
    pub(super) fn to_move(&self, session: u64) -> Vec<(Name, u64)> {
        let other = |claim: &Claim| claim.session.is_some_and(|it| it != session);
        let grants = self.claims.iter().filter(|(_, claim)| other(claim));
        let grants = grants.filter_map(|(name, claim)| Some((name.clone(), claim.token()?)));
        grants.collect()
    }

    /// The grants for which a POLL counts that is sent now.
    pub(super) fn known(&self, session: u64) -> Vec<Name> {
        let is_known = |claim: &Claim| claim.session == Some(session) && claim.token().is_some();
        let known = self.claims.iter().filter(|(_, claim)| is_known(claim));
        known.map(|(name, _)| name.clone()).collect()
    }

    /// The grant is lost; its number, if the user has it.
    pub(super) fn lose(&mut self, name: &Name) -> Option<u64> {
        let claim = self.claims.get_mut(name)?;
        if claim.is_handed_over {
            return self.claims.remove(name).map(|claim| claim.number);
        }
        claim.stage = Stage::Over(("lost", String::new()));
        None
    }

    /// Those whose time has passed, and for which a round that began after that brought no later one.
    pub(super) fn silent(&mut self, round: Instant) -> Vec<u64> {
        let now = Instant::now();
        let is_over = |claim: &Claim| match claim.stage {
            // A fixed lease ends by the clock.
            Stage::Held { sure, .. } if claim.session.is_none() => sure < now,
            Stage::Held { sure, .. } => sure < round,
            _ => false,
        };
        let over = self.claims.iter().filter(|(_, claim)| is_over(claim));
        let over: Vec<_> = over.map(|(name, _)| name.clone()).collect();
        over.iter().filter_map(|name| self.lose(name)).collect()
    }

    /// For a whole lease every reply has counted more grants than are known.
    pub(super) fn has_strays_for(&self, lease: Duration) -> bool {
        self.strays_since
            .is_some_and(|since| since.elapsed() > lease)
    }

    /// Applies the reply to a POLL; returns the grants that are lost.
    pub(super) fn polled(
        &mut self,
        (session, sent): (u64, Instant),
        known: &[Name],
        reply: Reply,
        lease: Duration,
    ) -> Vec<u64> {
        let fields = reply.fields();
        let sure = u64::try_from(fields["sure-ms"].clone().int());
        let sure = sent + sure.map_or(lease, Duration::from_millis);
        let mut lost = Vec::new();
        for event in fields["events"].clone().items() {
            let parts = event.items();
            let number = parts[0].clone().int();
            if number <= self.seen {
                continue;
            }
            self.seen = number;
            let name = (parts[2].clone().text(), parts[3].clone().text());
            match parts[1].clone().text().as_str() {
                "granted" => self.granted(&name, token_of(&parts[4]), session, sure),
                "ended" => self.ended(&name, &parts[4].clone().text()),
                _ => {
                    let token = token_of(&parts[4]);
                    self.losses.insert(token);
                    let claim = self.claims.get(&name);
                    // A grant that was removed from the session for its fixed lease is `taken`, too.
                    let is_ours = claim
                        .is_some_and(|it| it.token() == Some(token) && it.session == Some(session));
                    if is_ours {
                        lost.extend(self.lose(&name));
                    }
                }
            }
        }
        if self.under_way == 0 {
            self.losses.clear();
        }
        for name in known {
            if let Some(claim) = self.claims.get_mut(name)
                && claim.session == Some(session)
                && let Stage::Held { sure: until, .. } = &mut claim.stage
            {
                *until = sure.max(*until);
            }
        }
        let grants = usize::try_from(fields["grants"].clone().int()).expect("a count");
        let has_more = grants > self.known(session).len() + self.unfinished.len();
        self.strays_since = has_more.then(|| self.strays_since.unwrap_or(sent));
        lost
    }

    fn ended(&mut self, name: &Name, why: &str) {
        let Some(claim) = self.claims.get_mut(name) else {
            return;
        };
        if !matches!(claim.stage, Stage::Asked | Stage::InLine) {
            return;
        }
        let class = match why.split(' ').next().unwrap_or_default() {
            "timeout" | "cancelled" => "busy",
            "WRONGTYPE" => "misuse",
            "NOPERM" => "refused",
            "DEADLOCK" => "deadlock",
            "NOTALONE" => "not-alone",
            _ => {
                claim.stage = Stage::Asked;
                return;
            }
        };
        claim.stage = Stage::Over((class, why.to_owned()));
    }
}
