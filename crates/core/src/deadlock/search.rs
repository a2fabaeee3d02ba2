//! The search for a deadlock cycle, one lock at a time.

use super::Cycle;
use crate::{
    Call, CallId, Calls, Holders, Limit, LineId, LockId, Map, Owner, OwnerBuf, OwnerWaits, Set,
    UnixTime, Waiter,
};

/// How many holders a search visits before it gives up.
pub const MAX_STEPS: usize = 1000;

/// A search for the deadlock cycle that a call would create by waiting.
#[derive(Debug)]
pub struct Search<'a> {
    caller: Owner<'a>,
    lock: (i32, &'a [u8]),
    /// The waits found so far. Those before `next` were followed already.
    found: Vec<Found>,
    next: usize,
    /// The first calls of the owners that were found.
    seen: Set<CallId>,
    /// The locks whose holders were visited, by line.
    visited: Map<LineId, MustGo>,
    /// The wait in `found` whose lock is visited next, and which of its holders matter.
    current: Option<(usize, WaitReason)>,
    steps: usize,
}

/// A holder that waits for one lock, with its first call there.
#[derive(Clone, Copy, Debug)]
struct Found {
    call: CallId,
    /// The owner that waits for this holder, as an index into `found`; `None` for the caller.
    waited_for_by: Option<usize>,
}

/// Which holders must release the lock before an owner can get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MustGo {
    /// The holder with limit 1, if there is one.
    Exclusive,
    /// All holders.
    All,
}

/// Which holders block an owner, and the owners whose calls count.
#[derive(Debug)]
struct WaitReason {
    must_go: MustGo,
    /// The waiting owner, and the owner of a call with limit 1 before it.
    owners: [Option<OwnerBuf>; 2],
}

impl<'a> Search<'a> {
    /// Begins the search for a call that finds no room, with the holders of its lock. Returns `None` if the call cannot
    /// create a cycle.
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
        // Check this first, because it decides nearly every search.
        if let Holders::Exclusive(holder) = holders
            && calls.waits_of(holder.owner.bytes()) == OwnerWaits::None
        {
            return None;
        }
        // The owner may be in this line already: with an earlier call, which is the one that counts, or because a tick
        // checks this call.
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
            visited: Map::default(),
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

    /// The lock to visit next; `None` if there is no cycle.
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
            let visited = self.visited.get(&wait.line);
            if visited.is_some_and(|visited| *visited >= must_go) {
                continue;
            }
            let owners = [Some(owner.clone()), before.map(OwnerBuf::from)];
            self.current = Some((index, WaitReason { must_go, owners }));
            return Some(wait.lock_id.clone());
        }
    }

    /// Visits the holders of the lock that [`Search::next_lock`] has returned. Returns a cycle if this finds one.
    pub fn visit<A>(
        &mut self,
        calls: &Calls<A>,
        holders: Option<&Holders<'_>>,
        now: UnixTime,
    ) -> Option<Cycle> {
        let (index, reason) = self.current.take()?;
        let holders = holders?;
        // If one of these owners holds the lock, it does not wait: its call is about to be judged as a re-entry.
        let mut owners = reason.owners.iter().flatten().map(OwnerBuf::as_owner);
        if owners.any(|owner| holds(holders, owner, now)) {
            return None;
        }
        let wait = OnlyWait::of(calls, self.found.get(index)?.call)?;
        self.visited.insert(wait.line, reason.must_go);
        if self.follow(calls, Some(index), reason.must_go, holders, now) {
            self.cycle(calls, index)
        } else {
            None
        }
    }

    /// Records which of the holders that must release the lock wait themselves. Returns true if the caller is one of
    /// them.
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

    /// Visits a holder. Returns true for the caller, and `None` if the search has reached its limit. A holder whose
    /// lease has ended counts as a step, although it no longer holds the lock.
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

    /// The waits from the caller to this one, if all of them still exist.
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
    /// Which holders must release the lock before an owner's first call in line (or its new call) is granted, and the
    /// owner of a call with limit 1 before that call.
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

/// The wait of an owner that waits for only one lock, with its first call there.
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

/// Returns true if the owner holds the lock and its lease has not ended.
fn holds(holders: &Holders<'_>, owner: Owner<'_>, now: UnixTime) -> bool {
    let holder = holders.find(owner);
    holder.is_some_and(|holder| !holder.end.has_passed(now))
}
