//! The search for a cycle, a lock at a time.

use super::Cycle;
use crate::{
    Call, CallId, Calls, Holders, Limit, LineId, LockId, Map, Owner, OwnerBuf, OwnerWaits, Set,
    UnixTime, Waiter,
};

/// How many holders a search looks at before it ends without a result.
pub const MAX_STEPS: usize = 1000;

/// A search for the cycle that a call would close by waiting.
#[derive(Debug)]
pub struct Search<'a> {
    caller: Owner<'a>,
    lock: (i32, &'a [u8]),
    /// The waits found so far; those before `next` were followed.
    found: Vec<Found>,
    next: usize,
    /// The first calls of the owners that were found.
    seen: Set<CallId>,
    /// The locks whose holders were looked at, by line.
    looked_at: Map<LineId, MustGo>,
    /// The wait in `found` whose lock is to be looked at now, and which holders matter there.
    current: Option<(usize, WaitReason)>,
    steps: usize,
}

/// A holder that waits for one lock, by its first call there.
#[derive(Clone, Copy, Debug)]
struct Found {
    call: CallId,
    /// The owner that waits for it; `None` for the caller.
    waited_for_by: Option<usize>,
}

/// Which holders of a lock must go before an owner can get in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MustGo {
    /// The exclusive holder (limit 1), if there is one.
    Exclusive,
    /// All.
    All,
}

/// Which holders block an owner, and the owners whose calls count.
#[derive(Debug)]
struct WaitReason {
    must_go: MustGo,
    /// The owner that waits, and that of a call with limit 1 before it.
    owners: [Option<OwnerBuf>; 2],
}

impl<'a> Search<'a> {
    /// Begins the search for a call that finds no room, with the holders of its lock. `None` when it may wait, because
    /// it cannot close a cycle.
    #[must_use]
    pub fn begin<A>(
        calls: &Calls<A>,
        caller: Owner<'a>,
        lock: (i32, &'a [u8]),
        limit: Limit,
        holders: Option<&Holders<'_>>,
        now: UnixTime,
    ) -> Option<Self> {
        let holders = holders?;
        // This nearly always decides it.
        if let Holders::Exclusive(holder) = holders
            && calls.waits_of(holder.owner.bytes()) == OwnerWaits::None
        {
            return None;
        }
        // The caller may be in this line already: by an earlier call of the owner, which is the one that counts, or
        // because a tick checks it.
        let (first, limit) = match calls.waits_of(caller.bytes()) {
            OwnerWaits::None => (None, limit),
            OwnerWaits::One(_, call) if calls.get(call)?.lock_id.is(lock.0, lock.1) => {
                (Some(call), calls.get(call)?.waiter.limit)
            }
            OwnerWaits::One(..) | OwnerWaits::Several => return None,
        };
        let mut search = Self {
            caller,
            lock,
            found: Vec::new(),
            next: 0,
            seen: Set::default(),
            looked_at: Map::default(),
            current: None,
            steps: 0,
        };
        let (must_go, before) = MustGo::of(calls, lock, first, limit);
        if before.is_some_and(|owner| holds(holders, owner, now)) {
            return None;
        }
        search.follow(calls, None, must_go, holders, now);
        (!search.found.is_empty()).then_some(search)
    }

    /// The lock to look at next; `None` when there is no cycle.
    pub fn next_lock<A>(&mut self, calls: &Calls<A>) -> Option<LockId> {
        loop {
            let index = self.next;
            let call = self.found.get(index)?.call;
            self.next += 1;
            let Some(wait) = OnlyWait::of(calls, call) else {
                continue;
            };
            let (owner, limit) = (&wait.waiter.owner, wait.waiter.limit);
            let lock = (wait.lock_id.database, &*wait.lock_id.key);
            let (must_go, before) = MustGo::of(calls, lock, Some(call), limit);
            let looked_at = self.looked_at.get(&wait.line);
            if looked_at.is_some_and(|looked_at| *looked_at >= must_go) {
                continue;
            }
            let owners = [Some(owner.clone()), before.map(OwnerBuf::from)];
            self.current = Some((index, WaitReason { must_go, owners }));
            return Some(wait.lock_id.clone());
        }
    }

    /// Looks at the holders of the lock that [`Search::next_lock`] has named; the cycle, if that closes one.
    pub fn look<A>(
        &mut self,
        calls: &Calls<A>,
        holders: Option<&Holders<'_>>,
        now: UnixTime,
    ) -> Option<Cycle> {
        let (index, reason) = self.current.take()?;
        let holders = holders?;
        // If one of these owners holds the lock, its call is about to be judged as a re-entry.
        let mut owners = reason.owners.iter().flatten().map(OwnerBuf::as_owner);
        if owners.any(|owner| holds(holders, owner, now)) {
            return None;
        }
        let wait = OnlyWait::of(calls, self.found.get(index)?.call)?;
        self.looked_at.insert(wait.line, reason.must_go);
        if self.follow(calls, Some(index), reason.must_go, holders, now) {
            self.cycle(calls, index)
        } else {
            None
        }
    }

    /// Notes which of the holders that must go wait themselves. True when the caller is one of them.
    fn follow<A>(
        &mut self,
        calls: &Calls<A>,
        waited_for_by: Option<usize>,
        must_go: MustGo,
        holders: &Holders<'_>,
        now: UnixTime,
    ) -> bool {
        match holders {
            Holders::Exclusive(holder) => {
                let is_held = !holder.end.has_passed(now);
                self.step(calls, waited_for_by, holder.owner, is_held) == Some(true)
            }
            Holders::Shared(_) if must_go == MustGo::Exclusive => false,
            Holders::Shared(lock) => lock
                .set
                .iter()
                .map_while(|holder| {
                    let is_held = !holder.end.has_passed(now);
                    self.step(calls, waited_for_by, holder.owner, is_held)
                })
                .any(|is_caller| is_caller),
        }
    }

    /// Looks at a holder: true for the caller, `None` when the search is over. A holder whose lease has ended counts as
    /// a step, though it no longer holds the lock.
    fn step<A>(
        &mut self,
        calls: &Calls<A>,
        waited_for_by: Option<usize>,
        holder: Owner<'_>,
        is_held: bool,
    ) -> Option<bool> {
        if self.steps == MAX_STEPS {
            self.next = self.found.len();
            return None;
        }
        self.steps += 1;
        if !is_held {
            return Some(false);
        }
        if holder == self.caller {
            return Some(true);
        }
        if let OwnerWaits::One(_, call) = calls.waits_of(holder.bytes())
            && self.seen.insert(call)
        {
            self.found.push(Found {
                call,
                waited_for_by,
            });
        }
        Some(false)
    }

    /// The waits from the caller's to this one, if all of them still exist.
    fn cycle<A>(&self, calls: &Calls<A>, last: usize) -> Option<Cycle> {
        let mut waits = Vec::new();
        let mut next = Some(last);
        while let Some(index) = next {
            let found = self.found.get(index)?;
            let wait = OnlyWait::of(calls, found.call)?;
            waits.push((wait.waiter.owner.clone(), wait.lock_id.clone()));
            next = found.waited_for_by;
        }
        let (database, key) = self.lock;
        waits.push((OwnerBuf::from(self.caller), LockId::new(database, key)));
        waits.reverse();
        Some(Cycle(waits))
    }
}

impl MustGo {
    /// Which holders must go before an owner's first call in line, or its new one; and the owner of a
    /// call with limit 1 before it.
    fn of<'q, A>(
        calls: &'q Calls<A>,
        (database, key): (i32, &[u8]),
        first: Option<CallId>,
        limit: Limit,
    ) -> (Self, Option<Owner<'q>>) {
        if limit == Limit::ONE {
            return (Self::All, None);
        }
        let before = calls.first_exclusive(database, key, first);
        match before.and_then(|call| calls.get(call)) {
            Some(call) => (Self::All, Some(call.waiter.owner.as_owner())),
            None => (Self::Exclusive, None),
        }
    }
}

/// The wait of an owner that waits for only one lock: its first call there.
struct OnlyWait<'q> {
    waiter: &'q Waiter,
    lock_id: &'q LockId,
    line: LineId,
}

impl<'q> OnlyWait<'q> {
    fn of<A>(calls: &'q Calls<A>, call: CallId) -> Option<Self> {
        let Call {
            waiter, lock_id, ..
        } = calls.get(call)?;
        match calls.waits_of(waiter.owner.as_owner().bytes()) {
            OwnerWaits::One(line, first) if first == call => Some(Self {
                waiter,
                lock_id,
                line,
            }),
            _ => None,
        }
    }
}

/// True when the owner holds the lock, by a lease that has not ended.
fn holds(holders: &Holders<'_>, owner: Owner<'_>, now: UnixTime) -> bool {
    let holder = holders.find(owner);
    holder.is_some_and(|holder| !holder.end.has_passed(now))
}
