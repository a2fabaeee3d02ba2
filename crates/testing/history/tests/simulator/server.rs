//! A lock on one server: the module's own rules and queues, and the defects that one can have.

mod commands;

use std::collections::HashSet;

use history::{Action, Call, Moment, Outcome, Refusal};
use redis_lock_core::{
    Acquire, Acquired, Change, Deadline, Grant, Held, Limit, Monotonic, Owner, OwnerBuf,
    PendingGrant, PendingGrants, Queues, TokenClock, UnixTime, Waiter, WaiterId,
};

use super::defect::Defect;

/// The server's wall clock at the start of a run, in microseconds.
const START: u64 = 1_000_000_000;

/// The database and the name of the only lock.
const DATABASE: i32 = 0;
const KEY: &[u8] = b"lock";

/// A call, by its place among the calls of a run.
pub(crate) type Id = usize;

/// What a key holds.
#[derive(Clone, Debug)]
struct Lock {
    owner: OwnerBuf,
    grant: Grant,
    deadline: Deadline,
}

/// What a crash cannot take away.
#[derive(Clone, Debug, Default)]
pub(crate) struct Saved {
    lock: Option<Lock>,
    clock: TokenClock,
    register: u64,
}

/// The server.
#[derive(Debug, Default)]
pub(crate) struct Server {
    now: Moment,
    pub(crate) ahead: i64,
    saved: Saved,
    queues: Queues,
    /// Waiting calls whose connection will turn out to be gone when they are granted.
    doomed: HashSet<Id>,
    pending: PendingGrants,
    /// Calls that were granted and whose connections are gone.
    gone: Vec<WaiterId>,
    /// What waiting calls were answered.
    pub(crate) answers: Vec<(Id, Outcome)>,
    /// The waiting calls that were granted after their connection was gone.
    pub(crate) dead: Vec<Id>,
    pub(crate) defect: Option<Defect>,
    /// New tokens do not follow time.
    timeless: bool,
    /// How often the defect has had its chance.
    chances: u32,
}

impl Lock {
    fn held(&self) -> Held<'_> {
        Held {
            owner: self.owner.as_owner(),
            grant: self.grant,
            deadline: self.deadline,
        }
    }

    /// As a command shows it.
    fn outcome(&self) -> Outcome {
        Outcome::Grant {
            token: self.grant.token.number(),
            owner: String::from_utf8_lossy(self.owner.as_owner().bytes()).into_owned(),
            holds: self.grant.holds.number(),
            lease: self.grant.lease.millis(),
        }
    }
}

impl Server {
    pub(crate) fn new(defect: Option<Defect>) -> Self {
        Self {
            defect,
            ..Self::default()
        }
    }

    pub(crate) fn save(&self) -> Saved {
        self.saved.clone()
    }

    /// Goes down, and comes back with what was saved.
    pub(crate) fn crash(&mut self, saved: Saved) {
        // Time goes on, and tokens follow it.
        let clock = self.saved.clock;
        self.saved = saved;
        self.timeless = self.has(Defect::TokensFallAfterLoss);
        if !self.timeless {
            self.saved.clock = clock;
        }
        self.queues = Queues::new();
        self.doomed.clear();
        self.pending = PendingGrants::new();
        self.gone.clear();
    }

    /// Time goes on; leases end.
    pub(crate) fn advance(&mut self, now: Moment) {
        self.now = self.now.max(now);
        let now = Deadline::At(self.wall().millis());
        let is_over = |lock: &Lock| lock.deadline < now;
        if self.saved.lock.as_ref().is_some_and(is_over) && !self.has(Defect::NeverExpires) {
            self.saved.lock = None;
        }
    }

    /// Memory is full.
    pub(crate) fn evict(&mut self) {
        self.saved.lock = None;
    }

    /// What the server does every few milliseconds.
    pub(crate) fn tick(&mut self) {
        while let Some((end, id)) = self.queues.next_end()
            && end <= Monotonic(self.now)
        {
            self.end_wait(id);
        }
        self.settle();
        self.serve();
    }

    /// The calls that wait, in order.
    pub(crate) fn waiters(&self) -> impl Iterator<Item = Id> {
        let queue = self.queues.iter(DATABASE, KEY);
        queue.map(|(_, waiter)| call_of(waiter))
    }

    /// A waiting call's connection is closed.
    pub(crate) fn leave(&mut self, id: Id) {
        let mut queue = self.queues.iter(DATABASE, KEY);
        if let Some((waiter, _)) = queue.find(|(_, waiter)| call_of(waiter) == id) {
            drop(queue);
            self.queues.remove(waiter);
        }
    }

    /// A script writes behind a fence.
    pub(crate) fn write(&mut self, token: u64) -> bool {
        self.settle();
        let current = self.fence(token);
        if current {
            self.saved.register = token;
        }
        current
    }

    /// Runs a command; nothing where it waits.
    pub(crate) fn run(
        &mut self,
        id: Id,
        call: &Call,
        until: Moment,
        doomed: bool,
    ) -> Option<Outcome> {
        if call.action != Action::Look {
            self.settle();
        }
        let outcome = match &call.action {
            Action::Acquire { block, .. } => {
                if self.saved.lock.is_none() && !self.has(Defect::Barging) {
                    self.serve();
                }
                let outcome = self.acquire(call);
                if outcome == Outcome::Nil && *block {
                    self.wait(id, call, until);
                    if doomed {
                        self.doomed.insert(id);
                    }
                    return None;
                }
                outcome
            }
            Action::Release { down, token } => self.release(call, *down, *token),
            Action::Renew {
                lease,
                token,
                raise,
            } => self.renew(call, *lease, *token, *raise),
            Action::Fence(token) if self.fence(*token) => Outcome::Done,
            Action::Fence(_) => Outcome::Refused(Refusal::Fenced),
            Action::Look => self.saved.lock.as_ref().map_or(Outcome::Nil, Lock::outcome),
            Action::Remove => {
                self.saved.lock = None;
                Outcome::Done
            }
        };
        if !self.has(Defect::Barging) {
            self.serve();
        }
        Some(outcome)
    }

    fn wall(&self) -> UnixTime {
        UnixTime::from_micros((START + self.now).saturating_add_signed(self.ahead))
    }

    fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    /// Now and then only, so that everything else still happens.
    fn has_at_times(&mut self, defect: Defect) -> bool {
        self.chances += u32::from(self.has(defect));
        self.has(defect) && self.chances % 3 == 1
    }

    fn apply(&mut self, owner: OwnerBuf, change: Change) {
        match change {
            Change::Keep => {}
            Change::Hold(grant, deadline) => {
                self.saved.lock = Some(Lock {
                    owner,
                    grant,
                    deadline,
                });
            }
            Change::Free => self.saved.lock = None,
        }
    }

    /// Puts a call at the end of the queue.
    fn wait(&mut self, id: Id, call: &Call, until: Moment) {
        let request = commands::acquire(call);
        let waiter = Waiter {
            owner: request.owner.into(),
            lease: request.lease,
            holds: request.holds,
            limit: Limit::ONE,
            keep: None,
            names_limit: false,
            client_id: id as u64,
            since: Monotonic(self.now),
            until: Some(Monotonic(until)),
        };
        let before: Vec<_> = self.queues.iter(DATABASE, KEY).map(|(id, _)| id).collect();
        self.queues.join(DATABASE, KEY, waiter);
        if self.has_at_times(Defect::LastInFirstOut) {
            for id in before {
                let (_, waiter) = self.queues.remove(id).expect("a call that waits");
                self.queues.join(DATABASE, KEY, waiter);
            }
        }
    }

    /// A wait ends with nil.
    fn end_wait(&mut self, id: WaiterId) {
        let (_, waiter) = self.queues.remove(id).expect("a call that waits");
        self.answers.push((call_of(&waiter), Outcome::Nil));
    }

    /// Grants to those whose turn it is.
    fn serve(&mut self) {
        let mut granted = Vec::new();
        while let Some(id) = self.next_in_line() {
            let waiter = self.queues.get(id).expect("a call that waits").clone();
            let before = self.saved.lock.as_ref().map(|lock| lock.grant.holds);
            let request = Acquire {
                owner: waiter.owner.as_owner(),
                lease: waiter.lease,
                holds: waiter.holds,
                token: None,
            };
            let (Ok(Acquired::New(grant, _) | Acquired::Again(grant, _)), Some(lock)) =
                (self.judge_acquire(&request), &self.saved.lock)
            else {
                break;
            };
            let (lock_id, _) = self.queues.remove(id).expect("a call that waits");
            let pending = PendingGrant {
                lock_id,
                client_id: waiter.client_id,
                token: grant.token,
                took_hold: before.is_none_or(|before| grant.holds > before),
                holds: grant.holds,
                deadline: lock.deadline,
            };
            self.pending.add(id, pending, before.is_none());
            granted.push((id, call_of(&waiter), lock.outcome()));
        }
        for (id, call, outcome) in granted {
            if self.doomed.remove(&call) {
                self.dead.push(call);
                self.gone.push(id);
            } else {
                self.pending.deliver(id);
                self.answers.push((call, outcome));
            }
        }
    }

    /// Who waits first, or first of the calls of the owner who holds the lock.
    fn next_in_line(&self) -> Option<WaiterId> {
        match &self.saved.lock {
            None => self.queues.first(DATABASE, KEY),
            Some(lock) => {
                let owner = lock.owner.as_owner().bytes();
                self.queues.first_of(DATABASE, KEY, owner)
            }
        }
    }

    /// Gives back what callers took that are gone.
    fn settle(&mut self) {
        while !self.gone.is_empty() {
            for id in std::mem::take(&mut self.gone) {
                let owed = self.pending.abandon(id).expect("a pending grant");
                let Some(lock) = self.saved.lock.clone() else {
                    continue;
                };
                match owed.change(Some(&lock.held()), self.wall()) {
                    _ if self.has(Defect::GivenBackStays) => {}
                    Change::Hold(..) if self.has(Defect::TwinTaken) => self.saved.lock = None,
                    change => self.apply(lock.owner, change),
                }
            }
            self.serve();
        }
    }
}

/// The call that waits.
fn call_of(waiter: &Waiter) -> Id {
    usize::try_from(waiter.client_id).expect("a place among the calls")
}

fn owner(name: &str) -> Owner<'_> {
    Owner::new(name.as_bytes()).expect("an owner's name")
}
