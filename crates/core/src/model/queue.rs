//! The calls that wait for locks: one list in the order of joining, which is searched from the start each time.
//!
//! The model of locks judges the calls.

use std::collections::BTreeSet;

use super::call::{Call, End, Granted, Operation, Stage, Wait};
use super::lock::{self, Amount, Event, Key, Reply, Server, Verb};

#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) locks: Server,
    /// In the order of joining.
    pub(crate) calls: Vec<Call>,
    /// The monotonic clock, in milliseconds.
    pub(crate) clock: u64,
    pub(crate) joined: usize,
    /// The ends of the calls, in order.
    pub(crate) ended: Vec<(usize, End)>,
    /// The grants for waiting calls whose clients have no reply yet.
    pub(super) unknown: BTreeSet<u64>,
    /// The sessions whose calls are passed over.
    pub(crate) away: BTreeSet<usize>,
    /// The calls that were passed over and whose lock was not served since then.
    returned: BTreeSet<usize>,
    /// The rare cases that the history has reached.
    pub(crate) cases: BTreeSet<&'static str>,
}

impl Queue {
    pub(crate) fn new(locks: Server) -> Self {
        Self {
            locks,
            calls: Vec::new(),
            clock: 0,
            joined: 0,
            ended: Vec::new(),
            unknown: BTreeSet::new(),
            away: BTreeSet::new(),
            returned: BTreeSet::new(),
            cases: BTreeSet::new(),
        }
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Call> {
        self.calls
            .iter()
            .filter(|call| call.stage == Stage::Waiting)
    }

    pub(crate) fn waiting_at(&self, key: Key) -> impl Iterator<Item = &Call> {
        self.waiting().filter(move |call| call.key == key)
    }

    /// The line of a lock without the calls that are passed over.
    pub(crate) fn eligible_at(&self, key: Key) -> impl Iterator<Item = &Call> {
        self.waiting_at(key)
            .filter(|call| !self.is_passed_over(call))
    }

    pub(crate) fn is_passed_over(&self, call: &Call) -> bool {
        call.session
            .is_some_and(|session| self.away.contains(&session))
    }

    /// The queued call that one with these options repeats.
    pub(crate) fn repeated(
        &self,
        key: Key,
        owner: usize,
        session: Option<usize>,
        holds: Option<u64>,
    ) -> Option<&Call> {
        self.waiting_at(key).find(|call| {
            let is_same = (call.owner, call.session, call.holds) == (owner, session, holds);
            is_same && call.is_queued
        })
    }

    /// The wait that ends first: when, and of which call.
    pub(crate) fn next_wait_end(&self) -> Option<(u64, usize)> {
        let ends = self
            .waiting()
            .filter_map(|call| Some((call.until?, call.number)));
        ends.min()
    }

    /// Runs a call. Returns its reply; nil if it waits.
    pub(crate) fn apply(&mut self, operation: Operation) -> Option<Reply> {
        match operation {
            Operation::Call(call, wait) => return Some(self.call(call, wait)),
            Operation::Event(event) => self.locks.apply(event),
            Operation::Flush(database) => self.locks.locks.retain(|key, _| key.0 != database),
            Operation::Swap => {
                let calls = self.calls.iter().filter(|call| call.gives_back());
                for key in calls.map(|call| call.key).collect::<BTreeSet<_>>() {
                    self.settle(key);
                }
                let locks = std::mem::take(&mut self.locks.locks);
                let swapped = locks
                    .into_iter()
                    .map(|((database, key), lock)| ((1 - database, key), lock));
                self.locks.locks = swapped.collect();
            }
            Operation::Pass(millis) => {
                self.clock += millis;
                let now = self.locks.now + millis * lock::MICROS;
                self.locks.apply(Event::Clock(now));
            }
            Operation::Disconnect(number) => self.end(number, End::Disconnected),
            Operation::Leave(session) => drop(self.away.insert(session)),
            Operation::Return(session) => {
                let is_back = self.away.remove(&session);
                let calls = self.waiting().filter(|call| call.session == Some(session));
                let calls: Vec<_> = calls.map(|call| call.number).collect();
                if is_back && !calls.is_empty() {
                    self.cases.insert("a call returns");
                    self.returned.extend(calls);
                }
            }
            Operation::EndSession(session) => {
                self.away.remove(&session);
                let calls = self.waiting().filter(|call| call.session == Some(session));
                for number in calls.map(|call| call.number).collect::<Vec<_>>() {
                    self.end(number, End::SessionEnded);
                }
            }
            Operation::Write(number) => {
                let index = self.index(number);
                if let Stage::Granted(granted) = self.calls[index].stage {
                    self.calls[index].stage = Stage::Written(granted);
                }
            }
            Operation::Send => self.send(),
            Operation::Abandon(number) => {
                self.ended.push((number, End::Abandoned));
                self.give_back_later(number, false);
            }
            Operation::Confirm(number) => self.calls.retain(|call| call.number != number),
            Operation::Unsent(number) => self.give_back_later(number, true),
            Operation::Tick => self.tick(),
        }
        None
    }

    fn call(&mut self, mut call: lock::Call, wait: Option<Wait>) -> Reply {
        let key = call.key;
        let after_the_line = matches!(call.verb, Verb::Acquire { .. } | Verb::Renew { .. });
        // A fence changes nothing, but give-backs come before it too. Waiting calls with room at the front of the line
        // come before an acquire and a renewal.
        let is_look = matches!(call.verb, Verb::Fence) && !self.gives_back(key);
        if !is_look && (self.settle(key) | after_the_line) {
            self.serve(key);
        }
        if let Verb::Acquire { in_line, holds, .. } = &mut call.verb {
            *in_line = self.eligible_at(key).next().is_some();
            if let Some(wait) = wait.filter(|wait| wait.is_queued)
                && let Some(call) = self.repeated(key, call.owner, wait.session, *holds)
            {
                let is_free = self.locks.holders(key).is_empty();
                let case = ["repeated", "repeated on a free lock"][usize::from(is_free)];
                debug_assert!(!is_free || self.is_passed_over(call));
                self.cases.insert(case);
                return Reply::Nil;
            }
        }
        let mut reply = self.locks.call(call);
        if let (Verb::Release(Amount::All), None) = (call.verb, call.token)
            && self.cancel(key, call.owner)
            && matches!(reply, Reply::Error(_))
        {
            reply = Reply::Left(0);
        }
        match (call.verb, reply) {
            (
                Verb::Acquire {
                    px, limit, holds, ..
                },
                Reply::Nil,
            ) => {
                if let Some(wait) = wait {
                    self.calls.push(Call {
                        number: self.joined,
                        key,
                        owner: call.owner,
                        px,
                        limit,
                        holds,
                        session: wait.session,
                        is_queued: wait.is_queued,
                        until: (wait.millis > 0).then_some(self.clock + wait.millis),
                        stage: Stage::Waiting,
                    });
                    self.joined += 1;
                }
            }
            (Verb::Fence, _) | (_, Reply::Error(_)) => {}
            _ => {
                self.told(call);
                self.serve(key);
            }
        }
        reply
    }

    /// Records that the caller got its grant.
    fn told(&mut self, call: lock::Call) {
        if let Some(holder) = self.locks.holder(call.key, call.owner)
            && self.unknown.remove(&holder.grant)
            && self.is_pending(holder.grant)
        {
            let is_raise = matches!(call.verb, Verb::Renew { raise: Some(_), .. });
            let cases = ["answered directly while pending", "raised while pending"];
            self.cases.insert(cases[usize::from(is_raise)]);
        }
    }

    /// `RELEASE … ALL` ends the owner's waits, so that it neither holds the lock nor waits for it afterwards.
    fn cancel(&mut self, key: Key, owner: usize) -> bool {
        let own = self.waiting_at(key).filter(|call| call.owner == owner);
        let numbers: Vec<_> = own.map(|call| call.number).collect();
        for number in &numbers {
            self.end(*number, End::Cancelled);
        }
        !numbers.is_empty()
    }

    /// Returns true if a call of this grant is about to be answered.
    pub(super) fn is_pending(&self, grant: u64) -> bool {
        let mut calls = self.calls.iter();
        calls.any(|call| {
            call.pending()
                .is_some_and(|granted| granted.as_granted.grant == grant)
        })
    }

    fn send(&mut self) {
        let is_written = |call: &Call| matches!(call.stage, Stage::Written(_));
        while let Some(index) = self.calls.iter().position(is_written) {
            let call = &mut self.calls[index];
            if let Stage::Written(granted) = call.stage {
                call.stage = Stage::Sent(granted);
                self.ended.push((call.number, End::Answered));
                let grant = granted.as_granted.grant;
                // Later reports about this grant change nothing, and earlier ones have arrived.
                if !self.unknown.remove(&grant) || self.is_pending(grant) {
                    self.calls.remove(index);
                }
            }
        }
    }

    fn tick(&mut self) {
        while let Some((end, number)) = self.next_wait_end()
            && end <= self.clock
        {
            self.end(number, End::TimedOut);
        }
        // Granted calls do not wait for a lease to end.
        let open = |call: &&Call| call.stage == Stage::Waiting || call.gives_back();
        let calls = self.calls.iter().filter(open);
        for key in calls.map(|call| call.key).collect::<BTreeSet<_>>() {
            self.settle(key);
            self.serve(key);
        }
    }

    /// Grants the lock strictly in order, to the first call for as long as it has room. The other calls of an owner are
    /// judged together with its grant.
    fn serve(&mut self, key: Key) {
        let (mut just_granted, mut count) = (None, 0);
        while let Some(index) = self.next(key, just_granted) {
            let call = self.calls[index];
            if call.until.is_some_and(|until| until <= self.clock) {
                self.end(call.number, End::TimedOut);
                continue;
            }
            let holds_before = self
                .locks
                .holder(key, call.owner)
                .map_or(0, |holder| holder.holds);
            let Call {
                owner,
                px,
                limit,
                holds,
                ..
            } = call;
            let verb = Verb::Acquire {
                px,
                limit,
                holds,
                in_line: false,
            };
            match self.locks.call(lock::Call {
                key,
                owner,
                token: None,
                verb,
            }) {
                Reply::Error(error) => self.end(call.number, End::Refused(error)),
                Reply::Grant { holds, .. } => {
                    self.granted(index, holds_before, holds);
                    just_granted = Some(owner);
                    count += 1;
                    if count > 2 {
                        self.cases.insert("several granted at once");
                    }
                }
                reply => unreachable!("it has room: {reply:?}"),
            }
        }
        let line = self.waiting_at(key).map(|call| call.number);
        for number in line.collect::<Vec<_>>() {
            self.returned.remove(&number);
        }
    }

    /// Records a grant to a waiting call. The session of a queued call has the event at once.
    fn granted(&mut self, index: usize, holds_before: u64, holds: u64) {
        let call = self.calls[index];
        let as_granted = self.locks.holder(call.key, call.owner).expect("a holder");
        let grant = as_granted.grant;
        let passes = |other: &Call| other.number < call.number && self.is_passed_over(other);
        if self.waiting_at(call.key).any(passes) {
            self.cases.insert("a call is passed over");
        }
        if call.is_queued {
            self.end(call.number, End::Told(as_granted.token));
            if self.unknown.remove(&grant) && self.is_pending(grant) {
                self.cases.insert("queued while pending");
            }
            return;
        }
        if holds_before == 0 {
            self.unknown.insert(grant);
        }
        let took = holds > holds_before;
        self.calls[index].stage = Stage::Granted(Granted { as_granted, took });
    }

    fn next(&self, key: Key, just_granted: Option<usize>) -> Option<usize> {
        let holders = self.locks.holders(key);
        let holds = |call: &&Call| holders.iter().any(|holder| holder.owner == call.owner);
        let is_exclusive = matches!(&holders[..], [only] if only.limit == 1);
        let mut line = self.eligible_at(key);
        let first_of = |owner| self.eligible_at(key).find(|call| call.owner == owner);
        let own = just_granted.and_then(first_of);
        let next = own.or_else(|| {
            if is_exclusive {
                return line.find(holds);
            }
            let is_back = |call: &&Call| self.returned.contains(&call.number) && holds(call);
            let mut eligible = self.eligible_at(key);
            if let Some(call) = eligible.find(is_back) {
                return first_of(call.owner);
            }
            // A call whose owner holds the lock already is judged too.
            line.next()
                .filter(|first| holds(first) || self.locks.has_room(key, first.limit))
        });
        next.map(|call| self.index(call.number))
    }

    pub(super) fn index(&self, number: usize) -> usize {
        let mut calls = self.calls.iter();
        calls
            .position(|call| call.number == number)
            .expect("a call")
    }

    fn end(&mut self, number: usize, end: End) {
        self.calls.retain(|call| call.number != number);
        self.returned.remove(&number);
        self.ended.push((number, end));
    }
}
