//! A naive model, written from the contract alone: it collects every error that applies and replies
//! the first in the contract's order.

/// The wall clock counts microseconds, leases and deadlines count milliseconds.
pub(super) const MICROS: u64 = 1_000;
pub(super) const MAX_HOLDS: u64 = 2_147_483_647;
pub(super) const TOKENS_END: u64 = 9_007_199_254_740_992;

pub(super) const LOWER: &str = "ERR raise lower than token";
pub(super) const LIMIT: &str = "ERR hold count at its limit";
pub(super) const USED_UP: &str = "ERR tokens used up";

/// The errors in the contract's order.
const ERRORS: [&str; 7] = [
    LOWER, "NOTHELD", "NOTOWNER", "FENCED", "AHEAD", LIMIT, USED_UP,
];

/// A lock command in numbers; owners and keys count from 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) key: usize,
    /// Ignored by a fence.
    pub(super) owner: usize,
    pub(super) token: Option<u64>,
    pub(super) verb: Verb,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Verb {
    Acquire { px: Option<u64>, holds: Option<u64> },
    Release(Amount),
    Renew { px: Option<u64>, raise: Option<u64> },
    Fence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Amount {
    One,
    All,
    Holds(u64),
}

/// What changes locks without a lock command.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// The wall clock moves to this time, in microseconds.
    Clock(u64),
    /// An administrator's `PEXPIRE key ms`.
    Pexpire(usize, u64),
    /// An administrator's `PERSIST key`.
    Persist(usize),
    /// An administrator's `DEL key`.
    Del(usize),
    /// A token was replicated, loaded or restored from elsewhere.
    Seen(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Grant {
        token: u64,
        owner: usize,
        holds: u64,
        lease: u64,
    },
    Left(u64),
    Ok,
    Nil,
    Error(&'static str),
}

/// A held lock; it has no deadline after a `PERSIST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lock {
    pub(super) owner: usize,
    pub(super) token: u64,
    pub(super) holds: u64,
    pub(super) lease: u64,
    pub(super) deadline: Option<u64>,
}

impl Lock {
    fn reply(self) -> Reply {
        Reply::Grant {
            token: self.token,
            owner: self.owner,
            holds: self.holds,
            lease: self.lease,
        }
    }

    /// Restarts the lease, but never shortens it.
    fn refresh(&mut self, now: u64) {
        self.deadline = self
            .deadline
            .map(|deadline| deadline.max(now / MICROS + self.lease));
    }
}

/// The settings that the rules use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) default_lease: u64,
    pub(super) max_lead: u64,
}

/// A server: locks, the last token it has seen (0 for none), the wall clock.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) locks: Vec<Option<Lock>>,
    pub(super) seen: u64,
    pub(super) now: u64,
    pub(super) settings: Settings,
}

impl Server {
    pub(super) fn apply(&mut self, event: Event) {
        match event {
            Event::Clock(now) => self.now = now,
            Event::Pexpire(key, ms) => {
                if let Some(lock) = &mut self.locks[key] {
                    lock.deadline = Some(self.now / MICROS + ms);
                }
            }
            Event::Persist(key) => {
                if let Some(lock) = &mut self.locks[key] {
                    lock.deadline = None;
                }
            }
            Event::Del(key) => self.locks[key] = None,
            Event::Seen(token) => self.seen = self.seen.max(token),
        }
        for lock in &mut self.locks {
            if let Some(deadline) = lock.and_then(|lock| lock.deadline)
                && deadline < self.now / MICROS
            {
                *lock = None;
            }
        }
    }

    pub(super) fn call(&mut self, call: Call) -> Reply {
        let errors = self.errors(call);
        if let Some(first) = ERRORS.into_iter().find(|error| errors.contains(error)) {
            return Reply::Error(first);
        }
        let Call { key, owner, .. } = call;
        match call.verb {
            Verb::Acquire { px, holds } => self.acquire(key, owner, px, holds),
            Verb::Release(amount) => self.release(key, amount),
            Verb::Renew { px, raise } => self.renew(key, px, raise),
            Verb::Fence => Reply::Ok,
        }
    }

    /// Every error that applies, unordered.
    fn errors(&self, call: Call) -> Vec<&'static str> {
        let mut errors = Vec::new();
        let lock = self.locks[call.key];
        let mine = lock.filter(|lock| lock.owner == call.owner);
        let anothers = lock.is_some() && mine.is_none();
        let mut another_grant =
            lock.is_some_and(|lock| call.token.is_some_and(|t| t != lock.token));

        match call.verb {
            Verb::Acquire { holds, .. } => {
                let re_enters = call.token.is_some() || holds.is_some_and(|n| n > 1);
                if re_enters && lock.is_none() {
                    errors.push("NOTHELD");
                }
                if re_enters && anothers {
                    errors.push("NOTOWNER");
                }
                if let (Some(lock), Some(n)) = (mine, holds)
                    && lock.holds + 1 < n
                {
                    errors.push("NOTHELD");
                }
                if holds.is_none() && mine.is_some_and(|lock| lock.holds == MAX_HOLDS) {
                    errors.push(LIMIT);
                }
                if lock.is_none() && self.new_token() >= TOKENS_END {
                    errors.push(USED_UP);
                }
            }
            Verb::Release(_) | Verb::Renew { .. } => {
                if lock.is_none() {
                    errors.push("NOTHELD");
                }
                if anothers {
                    errors.push("NOTOWNER");
                }
            }
            Verb::Fence => another_grant |= lock.is_none(),
        }
        if let Verb::Renew {
            raise: Some(raise), ..
        } = call.verb
        {
            if call.token.is_some_and(|token| raise < token) {
                errors.push(LOWER);
            }
            if raise > self.seen && raise > self.now + self.settings.max_lead * MICROS {
                errors.push("AHEAD");
            }
            another_grant &= lock.is_some_and(|lock| lock.token != raise);
        }
        if another_grant {
            errors.push("FENCED");
        }
        errors
    }

    fn new_token(&self) -> u64 {
        (self.seen + 1).max(self.now)
    }

    fn acquire(&mut self, key: usize, owner: usize, px: Option<u64>, wanted: Option<u64>) -> Reply {
        let Some(mut lock) = self.locks[key] else {
            let lease = px.unwrap_or(self.settings.default_lease);
            let lock = Lock {
                owner,
                token: self.new_token(),
                holds: 1,
                lease,
                deadline: Some(self.now / MICROS + lease),
            };
            self.seen = lock.token;
            self.locks[key] = Some(lock);
            return lock.reply();
        };
        if lock.owner != owner {
            return Reply::Nil;
        }
        if wanted.is_none() || wanted == Some(lock.holds + 1) {
            lock.holds += 1;
        }
        if px.is_some_and(|px| px > lock.lease) {
            lock.lease = px.unwrap();
        }
        lock.refresh(self.now);
        self.locks[key] = Some(lock);
        lock.reply()
    }

    fn release(&mut self, key: usize, amount: Amount) -> Reply {
        let mut lock = self.locks[key].expect("a free lock is an error");
        let left = match amount {
            Amount::One => lock.holds - 1,
            Amount::All => 0,
            Amount::Holds(n) if n >= lock.holds => return Reply::Left(lock.holds),
            Amount::Holds(n) => n,
        };
        lock.holds = left;
        lock.refresh(self.now);
        self.locks[key] = (left > 0).then_some(lock);
        Reply::Left(left)
    }

    fn renew(&mut self, key: usize, px: Option<u64>, raise: Option<u64>) -> Reply {
        let lock = self.locks[key].as_mut().expect("a free lock is an error");
        lock.lease = px.unwrap_or(lock.lease);
        lock.deadline = Some(self.now / MICROS + lock.lease);
        if let Some(raise) = raise {
            lock.token = raise;
            self.seen = self.seen.max(raise);
        }
        lock.reply()
    }
}
