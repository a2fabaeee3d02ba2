//! A candidate: one state that a lock may be in, and what each operation makes of it.

use std::fmt;

use super::operation::{Need, Operation, What};
use super::times::{Scene, Times};
use crate::{Action, Call, Moment, Outcome, Refusal, Written};

/// A lock, as it may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate<'a> {
    pub(super) state: State<'a>,
    pub(super) times: Times,
}

/// What a lock may be, but for the times.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct State<'a> {
    pub(super) lock: Lock<'a>,
    /// A new grant has a higher token. Tokens that nobody was told of do not count: a grant that came
    /// and went so leaves no trace, and makes no other state.
    pub(super) highest: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Lock<'a> {
    Free,
    Held(Held<'a>),
    /// Something was lost, and anything may be true.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Held<'a> {
    pub(super) owner: &'a str,
    pub(super) token: Token,
    pub(super) holds: u32,
    /// The remembered one.
    pub(super) lease: u64,
    /// The server has answered some call of the grant, whether or not the answer was read.
    pub(super) answered: bool,
    /// What will be given back.
    pub(super) debts: Vec<Debt>,
}

/// A waiting call was granted, and will give back what it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Debt {
    /// The call, by its place among the operations.
    call: usize,
    took_hold: bool,
    /// A command that is sent later finds it given back.
    due: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Token {
    Is(u64),
    /// Nobody has been told of it yet. It is above this one.
    Above(u64),
}

impl Held<'_> {
    /// A call that is bound to a token, or to none, meets this grant.
    pub(super) fn matches(&self, token: Option<u64>) -> bool {
        token.is_none_or(|token| self.token == Token::Is(token))
    }

    pub(super) fn owes(&self, call: usize) -> bool {
        self.debts.iter().any(|debt| debt.call == call)
    }

    /// Whether the server would first give back before it ran a command that was sent then.
    fn settles_first(&self, sent: Moment) -> bool {
        self.debts.iter().any(|debt| debt.due < sent)
    }
}

impl<'a> Candidate<'a> {
    /// A lock that nobody has taken yet.
    pub(super) fn new() -> Self {
        Self {
            state: State {
                lock: Lock::Free,
                highest: 0,
            },
            times: Times::default(),
        }
    }

    /// The lock has become free by itself: its lease is over, or it was evicted.
    pub(super) fn lapse(&self, scene: Scene<'_>) -> Option<Self> {
        let Lock::Held(_) = self.state.lock else {
            return None;
        };
        let since = self.times.lapse(scene)?;
        let mut free = self.clone();
        free.state.lock = Lock::Free;
        free.times = Times {
            since,
            ..Times::default()
        };
        Some(free)
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
            now.state.lock = Lock::Unknown;
            if scene.clock.falls_behind(operation.ended, operation.sent) {
                now.state.highest = 0;
            }
            return vec![now];
        }
        if let Lock::Held(held) = &now.state.lock
            && (now.times.over(scene)
                || operation.is_command() && held.settles_first(operation.sent))
        {
            return Vec::new();
        }
        let mut candidates = match &operation.what {
            What::Loss(_) | What::GiveBack(_) => Vec::new(),
            What::Write(write) => now.written(write.token, write.written),
            What::Call {
                call,
                waits_besides,
            } if now.state.lock == Lock::Unknown => now.found_out(call, *waits_besides, scene),
            What::Call {
                call,
                waits_besides,
            } => now.called(call, *waits_besides, index, scene),
        };
        if operation.need() == Need::Look {
            for candidate in &mut candidates {
                candidate.times.since = self.times.since;
            }
        }
        candidates
    }

    /// A script that fenced with a token wrote, or did not.
    fn written(&self, token: u64, written: Written) -> Vec<Self> {
        if self.state.lock == Lock::Unknown {
            return vec![self.clone()];
        }
        let mut candidates = self.guesses(&[Some(token)]);
        candidates.retain(|candidate| candidate.fence(token) == (written == Written::Taken));
        candidates
    }

    fn called(
        &self,
        call: &'a Call,
        waits_besides: bool,
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
                (Outcome::Refused(Refusal::Ahead), Reply::Grant)
                    if raises(&before, &call.action) =>
                {
                    candidates.push(before);
                }
                // The release called off a wait instead.
                (Outcome::Left(0), Reply::Refused(_)) if waits_besides => candidates.push(before),
                (Outcome::Nil, Reply::Nil) | (Outcome::Done, Reply::Done) => candidates.push(then),
                (Outcome::Left(told), Reply::Left(left)) if *told == left => candidates.push(then),
                (Outcome::Refused(told), Reply::Refused(refusal)) if *told == refusal => {
                    candidates.push(then);
                }
                (outcome @ Outcome::Grant { .. }, Reply::Grant) => {
                    candidates.extend(then.told(outcome));
                }
                _ => {}
            }
        }
        candidates
    }

    /// The token as a call may know it, where nobody was told: one candidate for each token that the
    /// call names, and one in which the token is none of them.
    fn guesses(&self, named: &[Option<u64>]) -> Vec<Self> {
        let mut candidates = vec![self.clone()];
        if let Lock::Held(held) = &self.state.lock
            && let Token::Above(floor) = held.token
        {
            for token in named.iter().flatten().filter(|token| **token > floor) {
                let mut candidate = self.clone();
                candidate.learn(*token);
                candidates.push(candidate);
            }
        }
        candidates
    }

    /// The grant's token is this one.
    pub(super) fn learn(&mut self, token: u64) {
        self.state.highest = self.state.highest.max(token);
        if let Lock::Held(held) = &mut self.state.lock {
            held.token = Token::Is(token);
        }
    }

    /// A grant was replied: what is known when it is that of this candidate.
    fn told(mut self, outcome: &Outcome) -> Option<Self> {
        let (
            Outcome::Grant {
                token,
                owner,
                holds,
                lease,
            },
            Lock::Held(held),
        ) = (outcome, &self.state.lock)
        else {
            return None;
        };
        let known = match held.token {
            Token::Is(known) => known == *token,
            Token::Above(floor) => *token > floor,
        };
        if !known || held.owner != owner || held.holds != *holds || held.lease != *lease {
            return None;
        }
        self.learn(*token);
        Some(self)
    }

    /// A call has changed the candidate `before` into this one, and nobody read its reply. One that
    /// may have waited may have to give back.
    fn unanswered(self, before: &Self, call: &Call, index: usize) -> Vec<Self> {
        let Action::Acquire { block: true, .. } = call.action else {
            return vec![self];
        };
        let mut owing = self.clone();
        if let Lock::Held(held) = &mut owing.state.lock {
            let (answered, holds) = match &before.state.lock {
                Lock::Held(before) => (before.answered, before.holds),
                _ => (false, 0),
            };
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

    /// The candidates in which one more call has given back what it took.
    pub(super) fn give_backs(&self, scene: Scene<'_>) -> Vec<Self> {
        match &self.state.lock {
            Lock::Held(held) if !self.times.over(scene) => {
                let places = 0..held.debts.len();
                places
                    .filter_map(|place| self.give_back(place, scene))
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    /// A call gives back its hold; and the grant, where no other call knows of it.
    fn give_back(&self, place: usize, scene: Scene<'_>) -> Option<Self> {
        let mut then = self.clone();
        let Lock::Held(held) = &mut then.state.lock else {
            return None;
        };
        let debt = held.debts.remove(place);
        if !held.answered && held.debts.is_empty() {
            then.state.lock = Lock::Free;
            then.times = then.times.without_lease();
        } else if debt.took_hold && held.holds > 1 {
            held.holds -= 1;
            then.times = then.times.lengthened(held.lease, scene);
        }
        Some(then)
    }
}

/// What a lock replies.
pub(super) enum Reply {
    /// The grant as it is then.
    Grant,
    Nil,
    Left(u32),
    Done,
    Refused(Refusal),
}

fn named(action: &Action) -> [Option<u64>; 2] {
    match action {
        Action::Acquire { token, .. } | Action::Release { token, .. } => [*token, None],
        Action::Renew { token, raise, .. } => [*token, *raise],
        Action::Fence(token) => [Some(*token), None],
        Action::Look | Action::Remove => [None, None],
    }
}

fn raises(before: &Candidate<'_>, action: &Action) -> bool {
    let (Lock::Held(held), Action::Renew { raise: Some(_), .. }) = (&before.state.lock, action)
    else {
        return false;
    };
    !matches!(action, Action::Renew { raise, .. } if held.matches(*raise))
}

impl fmt::Display for State<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.lock {
            Lock::Free => write!(f, "free"),
            Lock::Unknown => write!(f, "anything"),
            Lock::Held(held) => {
                write!(f, "held by {} with holds {}", held.owner, held.holds)?;
                match held.token {
                    Token::Is(token) => write!(f, ", token {token}"),
                    Token::Above(floor) => write!(f, ", token above {floor}"),
                }
            }
        }
    }
}
