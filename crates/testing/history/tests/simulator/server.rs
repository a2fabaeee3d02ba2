//! A lock on one server: the module's own rules and queues, and the defects that one can have.

mod commands;
mod sessions;

use std::collections::HashSet;

use history::{Action, Call, Holder, Moment, Outcome, Refusal};
use redis_lock_core::{
    Acquire, CallId, Calls, Deadline, Grant, HolderSet, Holders, Limit, LockChange, Monotonic,
    Owner, OwnerBuf, Release, SharedLock, Taken, TokenClock, UnixTime, Waiter, next_in_line,
};

use redis_lock_core::sessions::SessionId;

use super::defect::Defect;
use sessions::Member;

/// The server's wall clock at the start of a run, in microseconds.
const START: u64 = 1_000_000_000;

/// The database and the name of the only lock.
const DATABASE: i32 = 0;
const KEY: &[u8] = b"lock";
/// More than there are clients.
const MAX_HOLDERS: usize = 1_000;

/// A call, by its place among the calls of a run.
pub(crate) type Id = usize;

/// What a key holds.
#[derive(Clone, Debug)]
enum Lock {
    Exclusive {
        owner: OwnerBuf,
        grant: Grant,
        deadline: Deadline,
    },
    Shared(HolderSet),
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
    waits: Calls,
    /// The sessions whose calls are passed over.
    away: HashSet<SessionId>,
    /// The grants in sessions.
    members: Vec<Member>,
    /// Waiting calls whose connection will turn out to be gone when they are granted.
    doomed: HashSet<Id>,
    /// Calls that were granted and whose connections are gone.
    gone: Vec<CallId>,
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
    fn holders(&self) -> Holders<'_> {
        match self {
            Self::Exclusive {
                owner,
                grant,
                deadline,
            } => Holders::Exclusive(redis_lock_core::Holder {
                owner: owner.as_owner(),
                grant: *grant,
                limit: Limit::ONE,
                end: *deadline,
            }),
            Self::Shared(set) => Holders::Shared(SharedLock {
                set,
                expiry: set.latest_end(),
            }),
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
        self.waits = Calls::default();
        self.doomed.clear();
        self.members.clear();
        self.gone.clear();
    }

    /// Time goes on; leases end.
    pub(crate) fn advance(&mut self, now: Moment) {
        self.now = self.now.max(now);
        let wall = self.wall();
        if self.has(Defect::NeverExpires) {
            return;
        }
        match &self.saved.lock {
            Some(Lock::Exclusive { deadline, .. }) if deadline.has_passed(wall) => {
                self.saved.lock = None;
            }
            Some(lock @ Lock::Shared(_)) => {
                let expired = lock.holders().expire(wall);
                if expired != LockChange::Keep && self.has(Defect::OneEndEndsAll) {
                    self.saved.lock = None;
                } else {
                    self.apply(&expired);
                }
            }
            _ => {}
        }
    }

    /// Memory is full.
    pub(crate) fn evict(&mut self) {
        self.saved.lock = None;
    }

    /// What the server does every few milliseconds.
    pub(crate) fn tick(&mut self) {
        while let Some((end, id)) = self.waits.next_end()
            && end <= Monotonic(self.now)
        {
            self.end_wait(id);
        }
        self.settle();
        self.serve();
    }

    /// The calls that wait, in order.
    pub(crate) fn waiters(&self) -> impl Iterator<Item = Id> {
        let queue = self.waits.iter(DATABASE, KEY);
        queue.map(|(_, call)| call_of(&call.waiter))
    }

    /// A waiting call's connection is closed.
    pub(crate) fn leave(&mut self, id: Id) {
        let mut queue = self.waits.iter(DATABASE, KEY);
        if let Some((waiting, _)) = queue.find(|(_, call)| call_of(&call.waiter) == id) {
            drop(queue);
            self.waits.remove(waiting);
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
                if !self.has(Defect::Barging) {
                    self.serve();
                }
                let outcome = self.acquire(call);
                if let (Outcome::Grant { .. }, Some(session)) = (&outcome, call.session) {
                    self.join_session(&call.owner, session.id);
                }
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
            Action::Renew { .. } => {
                self.serve();
                self.renew(call)
            }
            Action::Fence(token) if self.fence(*token) => Outcome::Done,
            Action::Fence(_) => Outcome::Refused(Refusal::Fenced),
            Action::Look => self.look(),
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

    fn apply(&mut self, change: &LockChange<'_>) {
        match change {
            LockChange::Keep => {}
            LockChange::Exclusive(holder) => {
                self.saved.lock = Some(Lock::Exclusive {
                    owner: holder.owner.into(),
                    grant: holder.grant,
                    deadline: holder.end,
                });
            }
            LockChange::Shared(change) => {
                let shares = match &mut self.saved.lock {
                    Some(Lock::Shared(shares)) => Some(shares),
                    _ => None,
                };
                if let Some(shares) = change.apply(shares).expect("the lock it was made for") {
                    self.saved.lock = Some(Lock::Shared(shares));
                }
            }
            LockChange::Free => self.saved.lock = None,
        }
    }

    fn holders(&self) -> Option<Holders<'_>> {
        self.saved.lock.as_ref().map(Lock::holders)
    }

    fn look(&self) -> Outcome {
        let Some(holders) = self.holders() else {
            return Outcome::Nil;
        };
        let listed = holders.live(self.wall()).map(|share| Holder {
            owner: String::from_utf8_lossy(share.owner.bytes()).into_owned(),
            token: share.grant.token.number(),
            holds: share.grant.holds.number(),
            lease: share.grant.lease.millis(),
            limit: history::Limit::new(share.limit.number()),
        });
        Outcome::Holders(listed.collect())
    }

    /// Puts a call at the end of the queue.
    fn wait(&mut self, id: Id, call: &Call, until: Moment) {
        let request = commands::acquire(call);
        let session = call.session.and_then(|session| SessionId::new(session.id));
        let waiter = Waiter {
            owner: request.owner.into(),
            lease: request.lease,
            holds: request.holds,
            limit: request.limit,
            names_limit: matches!(call.action, Action::Acquire { limit: Some(_), .. }),
            session,
            client_id: Some(id as u64),
            since: Monotonic(self.now),
            until: Some(Monotonic(until)),
        };
        let before: Vec<_> = self.waits.iter(DATABASE, KEY).map(|(id, _)| id).collect();
        let joined = self.waits.join(DATABASE, KEY, waiter, ());
        let is_away = session.is_some_and(|session| self.away.contains(&session));
        self.waits.pass_call_over(joined, is_away);
        if self.has_at_times(Defect::LastInFirstOut) {
            for id in before {
                let waiter = self.waits.remove(id).expect("a call that waits").waiter;
                self.waits.join(DATABASE, KEY, waiter, ());
            }
        }
    }

    /// A wait ends with nil.
    fn end_wait(&mut self, id: CallId) {
        let call = self.waits.remove(id).expect("a call that waits");
        self.answers.push((call_of(&call.waiter), Outcome::Nil));
    }

    /// Grants to those whose turn it is.
    fn serve(&mut self) {
        let mut granted = Vec::new();
        let mut just_granted: Option<OwnerBuf> = None;
        loop {
            let lock_now = self.saved.lock.clone();
            let holders = lock_now.as_ref().map(Lock::holders);
            let last = just_granted.as_ref().map(OwnerBuf::as_owner);
            let lock = (DATABASE, KEY);
            let next = next_in_line(&mut self.waits, lock, holders.as_ref(), last, MAX_HOLDERS);
            let Some(id) = next else { break };
            let waiter = self
                .waits
                .get(id)
                .expect("a call that waits")
                .waiter
                .clone();
            let owner = waiter.owner.as_owner();
            let request = Acquire {
                owner,
                limit: waiter.limit,
                lease: waiter.lease,
                holds: waiter.holds,
                token: None,
            };
            let judged = self.judge_acquire(&request, false);
            if judged == Ok(None) {
                break;
            }
            let call = call_of(&waiter);
            let granted_now = match judged {
                Ok(Some(granted)) => granted,
                Ok(None) => break,
                Err(refusal) => {
                    self.waits.remove(id);
                    self.doomed.remove(&call);
                    self.answers.push((call, commands::refused(refusal)));
                    continue;
                }
            };
            let grant = granted_now.holder.grant;
            let holder = self.holders().and_then(|holders| holders.find(owner));
            let deadline = holder.map_or(Deadline::Never, |holder| holder.end);
            let before = granted_now.before;
            let taken = Taken {
                token: grant.token,
                took_hold: before.is_none_or(|before| grant.holds > before.holds),
                holds: grant.holds,
                deadline,
            };
            let granted_call = self.waits.grant(id, taken, before.is_none());
            granted_call.expect("a call that waits");
            if let Some(session) = waiter.session {
                let owner = String::from_utf8_lossy(owner.bytes());
                self.join_session(&owner, session.number());
            }
            let outcome = commands::granted(&granted_now.holder, waiter.names_limit);
            granted.push((id, call, outcome));
            just_granted = Some(waiter.owner.clone());
        }
        for (id, call, outcome) in granted {
            if self.doomed.remove(&call) {
                self.dead.push(call);
                self.gone.push(id);
            } else {
                self.waits.reply_written(call as u64);
                self.waits.replies_sent(|| unreachable!("few replies"));
                self.waits.forget_sent(call as u64);
                self.answers.push((call, outcome));
            }
        }
    }

    /// Gives back what callers took that are gone.
    fn settle(&mut self) {
        while !self.gone.is_empty() {
            for id in std::mem::take(&mut self.gone) {
                assert!(self.waits.abandon(id), "a pending grant");
                let owed = self.waits.take_give_backs(DATABASE, KEY);
                let owed = owed.first().expect("what was taken");
                let lock = self.saved.lock.clone();
                let holders = lock.as_ref().map(Lock::holders);
                let Some(amount) = owed.release(holders.as_ref()) else {
                    continue;
                };
                if self.has(Defect::GivenBackStays) {
                    continue;
                }
                let request = Release {
                    owner: owed.owner.as_owner(),
                    amount,
                    token: None,
                };
                let released = redis_lock_core::release(holders.as_ref(), &request, || self.wall());
                let released = released.expect("a holder");
                if released.holder.is_some() && self.has(Defect::TwinTaken) {
                    self.saved.lock = None;
                } else {
                    self.apply(&released.change);
                }
            }
            self.serve();
        }
    }
}

/// The call that waits.
fn call_of(waiter: &Waiter) -> Id {
    let client = waiter.client_id.expect("a blocked call");
    usize::try_from(client).expect("a place among the calls")
}

fn owner(name: &str) -> Owner<'_> {
    Owner::new(name.as_bytes()).expect("an owner's name")
}
