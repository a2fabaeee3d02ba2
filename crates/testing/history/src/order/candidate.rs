//! A candidate: one state that a lock may be in, its times, and what each operation makes of it.

use super::lock_state::{Debt, Held, State, Token};
use super::operation::{Need, Operation, What};
use super::times::{End, Scene, Times};
use crate::{Acquire, Action, Call, Granted, Holder, Limit, Outcome, Refusal, Renew, Written};

/// A lock, as it may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate<'a> {
    pub(super) state: State<'a>,
    pub(super) times: Times,
}

impl<'a> Candidate<'a> {
    /// A lock that nobody has taken yet.
    pub(super) fn new() -> Self {
        Self {
            state: State {
                holders: Vec::new(),
                others: false,
                highest: 0,
            },
            times: Times::default(),
        }
    }

    /// The candidates in which one lease is over, or all is evicted.
    pub(super) fn lapses(&self, scene: Scene<'_>) -> Vec<Self> {
        let holders = self.state.holders.iter().enumerate();
        let mut lapsed: Vec<_> = holders
            .filter_map(|(place, held)| {
                let since = self.times.lapse(place, held.owner, held.lease, scene)?;
                let mut lapsed = self.clone();
                lapsed.remove(place);
                lapsed.times.since = since;
                Some(lapsed)
            })
            .collect();
        if !self.state.holders.is_empty()
            && let Some(since) = self.times.eviction(scene)
        {
            let mut free = self.clone();
            free.free();
            free.times.since = since;
            lapsed.push(free);
        }
        lapsed
    }

    /// The candidates after an operation; none where it cannot have been done in this one, or where
    /// it would have changed nothing and need not have been done.
    pub(super) fn after(
        &self,
        operation: &Operation<'a>,
        index: usize,
        scene: Scene<'_>,
    ) -> Vec<Self> {
        let mut now = self.clone();
        now.times.since = now.times.since.max(operation.sent);
        if let What::Loss(_) = operation.what {
            now.free();
            now.state.others = true;
            if scene.clock.falls_behind(operation.ended, operation.sent) {
                now.state.highest = 0;
            }
            return vec![now];
        }
        if let What::SetBack(_) = operation.what {
            now.state.others = true;
            now.alone_or_not();
            return vec![now];
        }
        if now.over(scene) || operation.is_command() && now.state.settles_first(operation.sent) {
            return Vec::new();
        }
        let mut candidates = match &operation.what {
            What::Loss(_) | What::SetBack(_) | What::GiveBack(_) => Vec::new(),
            What::Write(write) => now.written(write.token, write.written),
            What::Call {
                call,
                waits_besides,
                line,
                held_up,
            } => {
                if now.state.others && now.place(&call.owner).is_none() {
                    now.found_out(call, *waits_besides, scene)
                } else {
                    let stands_behind = (*held_up, &line[..]);
                    now.called(call, *waits_besides, stands_behind, index, scene)
                }
            }
        };
        if operation.need() == Need::Look {
            for candidate in &mut candidates {
                candidate.times.since = self.times.since;
            }
        }
        candidates
    }

    /// Where this owner is among the holders.
    pub(super) fn place(&self, owner: &str) -> Option<usize> {
        let holders = &self.state.holders;
        holders.binary_search_by(|held| held.owner.cmp(owner)).ok()
    }

    /// One more holder.
    pub(super) fn insert(&mut self, held: Held<'a>, end: End) {
        let place = self
            .state
            .holders
            .partition_point(|other| other.owner < held.owner);
        self.state.holders.insert(place, held);
        self.times.ends.insert(place, end);
    }

    /// A holder goes.
    pub(super) fn remove(&mut self, place: usize) {
        self.state.holders.remove(place);
        self.times.ends.remove(place);
    }

    /// Nobody holds it.
    pub(super) fn free(&mut self) {
        self.state.holders.clear();
        self.state.others = false;
        self.times.ends.clear();
    }

    /// A script that fenced with a token wrote, or did not.
    fn written(&self, token: u64, written: Written) -> Vec<Self> {
        let mut candidates = self.guesses(&[Some(token)]);
        candidates.retain(|candidate| candidate.fences(token, written == Written::Taken));
        candidates
    }

    /// Whether a fence can have passed, or refused, this token.
    pub(super) fn fences(&self, token: u64, passed: bool) -> bool {
        let mut holders = self.state.holders.iter();
        let current = holders.any(|held| held.matches(Some(token)));
        current == passed || passed && self.state.others
    }

    fn called(
        &self,
        call: &'a Call,
        waits_besides: bool,
        (held_up, line): (bool, &[&Call]),
        index: usize,
        scene: Scene<'_>,
    ) -> Vec<Self> {
        let mut candidates = Vec::new();
        for before in self.guesses(&named(&call.action)) {
            let mut then = before.clone();
            let reply = then.run(call, scene);
            match (&call.outcome, reply) {
                (Outcome::Lost | Outcome::GivenBack, _) if then != before => {
                    candidates.extend(then.unanswered(&before, call, index));
                }
                // Whether a raise is too far ahead is the server's to say.
                (Outcome::Refused(Refusal::Ahead), Reply::Grant) if raises(&before, call) => {
                    candidates.push(before);
                }
                // The others whom nobody knows may be too many.
                (Outcome::Refused(Refusal::NotAlone), Reply::Grant)
                    if before.state.others && then.narrows(&before, call) =>
                {
                    candidates.push(before);
                }
                // The release called off a wait instead.
                (Outcome::Left(0), Reply::Refused(_)) if waits_besides => candidates.push(before),
                // It would have room, and stands behind one that has none.
                (_, Reply::Grant)
                    if call.was_denied()
                        && before.place(&call.owner).is_none()
                        && (held_up || line.iter().any(|waiting| before.is_stuck(waiting))) =>
                {
                    candidates.push(before);
                }
                (_, Reply::Nil) if call.was_denied() => candidates.push(then),
                (Outcome::Nil, Reply::Nil) | (Outcome::Done, Reply::Done) => candidates.push(then),
                (Outcome::Left(told), Reply::Left(left)) if *told == left => candidates.push(then),
                (Outcome::Refused(told), Reply::Refused(refusal)) if *told == refusal => {
                    candidates.push(then);
                }
                (Outcome::Grant(told), Reply::Grant) => candidates.extend(then.told(call, told)),
                (Outcome::Holders(holders), Reply::Holders) => {
                    candidates.extend(then.listed(holders));
                }
                _ => {}
            }
        }
        candidates
    }

    /// Whether this call waits in vain: it has no room, nor a hold already.
    fn is_stuck(&self, waiting: &Call) -> bool {
        let Action::Acquire(asks) = waiting.action else {
            return false;
        };
        self.place(&waiting.owner).is_none()
            && (self.state.others || !self.state.has_room(asks.limit.unwrap_or(Limit::ONE)))
    }

    /// Whether the call has brought its grant's limit down.
    fn narrows(&self, before: &Self, call: &Call) -> bool {
        let limit = |candidate: &Self| {
            let place = candidate.place(&call.owner)?;
            Some(candidate.state.holders[place].limit)
        };
        limit(self) < limit(before)
    }

    /// The tokens as a call may know them, where nobody was told: one candidate for each grant and each
    /// token that the call names, and one in which no token is one of them.
    fn guesses(&self, named: &[Option<u64>]) -> Vec<Self> {
        let mut candidates = vec![self.clone()];
        for token in named.iter().flatten() {
            for (place, held) in self.state.holders.iter().enumerate() {
                if held.token != Token::Is(*token) && held.token.may_be(*token) {
                    let mut candidate = self.clone();
                    candidate.learn(place, *token);
                    candidates.push(candidate);
                }
            }
        }
        candidates
    }

    /// The grant's token is this one.
    pub(super) fn learn(&mut self, place: usize, token: u64) {
        self.state.highest = self.state.highest.max(token);
        self.state.holders[place].token = Token::Is(token);
    }

    /// A grant was replied: what is known when it is that of this candidate.
    fn told(mut self, call: &Call, told: &Granted) -> Option<Self> {
        let place = self.place(&call.owner)?;
        let held = &self.state.holders[place];
        let fits = held.fits(told.token, told.holds, told.lease, told.limit);
        if !fits || told.owner != call.owner {
            return None;
        }
        self.learn(place, told.token);
        self.alone_or_not();
        Some(self)
    }

    /// All holders were listed: what is known when they are those of this candidate. Of the others that
    /// there may be, nobody knows when their leases end.
    pub(super) fn listed(mut self, holders: &'a [Holder]) -> Option<Self> {
        let mut tokens = holders.windows(2);
        if !tokens.all(|pair| pair[0].token < pair[1].token) {
            return None;
        }
        if holders.len() < self.state.holders.len() {
            return None;
        }
        for holder in holders {
            match self.place(&holder.owner) {
                Some(place) => {
                    let held = &self.state.holders[place];
                    let limit = Some(holder.limit);
                    if !held.fits(holder.token, holder.holds, holder.lease, limit) {
                        return None;
                    }
                    self.learn(place, holder.token);
                }
                None if self.state.others => {
                    self.insert(Held::known(holder), End::ANY);
                    self.state.highest = self.state.highest.max(holder.token);
                }
                None => return None,
            }
        }
        self.state.others = false;
        let count = holders.len();
        let allowed = self
            .state
            .holders
            .iter()
            .all(|held| held.limit.allows(count));
        (allowed && self.state.holders.len() == count).then_some(self)
    }

    /// There are no others where a holder allows no more than are known.
    pub(super) fn alone_or_not(&mut self) {
        if self.state.others {
            let one_more = self.state.holders.len() + 1;
            let mut holders = self.state.holders.iter();
            self.state.others = holders.all(|held| held.limit.allows(one_more));
        }
    }

    /// A call has changed the candidate `before` into this one, and nobody read its reply. One that
    /// may have waited may have to give back.
    fn unanswered(self, before: &Self, call: &Call, index: usize) -> Vec<Self> {
        if !call.is_blocked() {
            return vec![self];
        }
        let mut owing = self.clone();
        if let Some(place) = owing.place(&call.owner) {
            let (answered, holds) = match before.place(&call.owner) {
                Some(place) => {
                    let before = &before.state.holders[place];
                    (before.answered, before.holds)
                }
                None => (false, 0),
            };
            let held = &mut owing.state.holders[place];
            held.answered = answered;
            held.debts.push(Debt {
                call: index,
                took_hold: held.holds > holds,
                due: call.ended,
            });
            held.debts.sort_unstable();
        }
        if call.outcome == Outcome::GivenBack {
            vec![owing]
        } else {
            vec![self, owing]
        }
    }

    /// Whether some holder's lease was certainly over before this candidate began.
    fn over(&self, scene: Scene<'_>) -> bool {
        let mut holders = self.state.holders.iter().enumerate();
        holders.any(|(place, held)| self.times.over(place, held.owner, held.lease, scene))
    }

    /// The candidates in which one more call has given back what it took.
    pub(super) fn give_backs(&self, scene: Scene<'_>) -> Vec<Self> {
        if self.over(scene) {
            return Vec::new();
        }
        let holders = self.state.holders.iter().enumerate();
        let debts = holders.flat_map(|(place, held)| {
            let debts = 0..held.debts.len();
            debts.map(move |debt| (place, debt))
        });
        debts
            .map(|(place, debt)| self.give_back(place, debt, scene))
            .collect()
    }

    /// A call gives back its hold; and the grant, where no other call knows of it.
    fn give_back(&self, place: usize, debt: usize, scene: Scene<'_>) -> Self {
        let mut then = self.clone();
        let held = &mut then.state.holders[place];
        let debt = held.debts.remove(debt);
        if !held.answered && held.debts.is_empty() {
            then.remove(place);
        } else if debt.took_hold && held.holds > 1 {
            held.holds -= 1;
            let lease = held.lease;
            then.times.lengthen(place, lease, scene);
        }
        then
    }
}

/// The reply of a lock.
pub(super) enum Reply {
    /// The grant as it is then.
    Grant,
    /// All holders.
    Holders,
    Nil,
    Left(u32),
    Done,
    Refused(Refusal),
}

fn named(action: &Action) -> [Option<u64>; 2] {
    match action {
        Action::Acquire(Acquire { token, .. }) | Action::Release { token, .. } => [*token, None],
        Action::Renew(asks) => [asks.token, asks.raise],
        Action::Fence(token) => [Some(*token), None],
        Action::Look | Action::Remove => [None, None],
    }
}

fn raises(before: &Candidate<'_>, call: &Call) -> bool {
    let place = before.place(&call.owner);
    matches!((place, &call.action), (Some(place), Action::Renew(Renew { raise: Some(raise), .. }))
        if !before.state.holders[place].matches(Some(*raise)))
}
