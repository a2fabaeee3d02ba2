//! The system under test: the locks and the table of calls, driven like by the server. A tick opens only the locks that
//! are ready.

use std::collections::{BTreeSet, HashMap};

use crate::model::call::{End, Operation, Wait};
use crate::model::lock::{self as model, Amount, Event, Key, NONE, Reply, Verb};
use crate::properties::locks::history::KEYS;
use crate::properties::locks::numbers::{count, lease, name, number_of, to_limit};
use crate::properties::locks::system::System as Locks;
use crate::sessions::SessionId;
use crate::{
    CallId, Calls, Holder, Holders, Lease, Limit, LockId, Monotonic, ReleaseAmount, Taken, Waiter,
    next_in_line,
};

pub(super) struct System {
    pub(super) locks: Locks,
    pub(super) calls: Calls,
    /// The calls in the order of joining. The client of each has its number.
    pub(super) ids: Vec<CallId>,
    pub(super) numbers: HashMap<CallId, usize>,
    pub(super) ended: Vec<(usize, End)>,
    /// The calls whose reply is written and not sent.
    written: BTreeSet<usize>,
    /// The monotonic clock, in milliseconds.
    clock: u64,
    /// The sessions whose calls are passed over.
    away: BTreeSet<usize>,
    /// True after an expiry was changed or the wall clock was set back. No event reports that, so every lock is checked
    /// in turn.
    checks_all: bool,
}

fn session_id(session: usize) -> SessionId {
    SessionId::new(session as u64 + 1).expect("an id")
}

pub(super) fn key_of(lock_id: &LockId) -> Key {
    (lock_id.database, lock_id.key[0])
}

impl System {
    pub(super) fn like(locks: &model::Server) -> Self {
        Self {
            locks: Locks::like(locks),
            calls: Calls::default(),
            ids: Vec::new(),
            numbers: HashMap::new(),
            ended: Vec::new(),
            written: BTreeSet::new(),
            clock: 0,
            away: BTreeSet::new(),
            checks_all: false,
        }
    }

    pub(super) fn apply(&mut self, operation: Operation) -> Option<Reply> {
        match operation {
            Operation::Call(call, wait) => return Some(self.call(call, wait)),
            Operation::Event(event) => self.event(&event),
            Operation::Flush(database) => {
                self.locks.keep(|key| key.0 != database);
                let flushed = |lock_id: &LockId| lock_id.database == database;
                for lock_id in self.calls.lock_ids().into_iter().filter(flushed) {
                    self.calls.make_ready(database, &lock_id.key);
                }
            }
            Operation::Swap => {
                for key in KEYS {
                    if self.calls.gives_back(key.0, &[key.1]) {
                        self.settle(key);
                    }
                }
                self.locks.swap();
                self.calls.make_all_ready();
            }
            Operation::Pass(millis) => {
                self.clock += millis;
                let now = self.locks.now().micros() + 1_000 * millis;
                self.locks.apply(&Event::Clock(now));
            }
            Operation::Disconnect(number) => self.leave(self.ids[number], End::Disconnected),
            Operation::Leave(session) => {
                self.away.insert(session);
                self.pass_over(session, true);
            }
            Operation::Return(session) => {
                self.away.remove(&session);
                self.pass_over(session, false);
            }
            Operation::EndSession(session) => {
                self.away.remove(&session);
                let calls = self.calls.of_session(session_id(session));
                for id in calls.collect::<BTreeSet<_>>() {
                    self.leave(id, End::SessionEnded);
                }
            }
            Operation::Write(number) => {
                assert_eq!(self.calls.blocked_by(number as u64), Some(self.ids[number]));
                self.calls.reply_written(number as u64);
                self.written.insert(number);
            }
            Operation::Send => {
                let now = self.locks.now();
                self.calls.replies_sent(|| now);
                let sent = std::mem::take(&mut self.written).into_iter();
                self.ended
                    .extend(sent.map(|number| (number, End::Answered)));
            }
            Operation::Abandon(number) => {
                if self.written.remove(&number) {
                    assert!(!self.calls.client_closed(number as u64), "it gives back");
                } else {
                    assert!(self.calls.abandon(self.ids[number]), "a granted call");
                }
                self.ended.push((number, End::Abandoned));
            }
            Operation::Confirm(number) => self.calls.forget_sent(number as u64),
            Operation::Unsent(number) => {
                assert!(self.calls.client_closed(number as u64), "it may be unsent");
                self.calls.reply_is_unsent(number as u64);
            }
            Operation::Tick => self.tick(),
        }
        None
    }

    fn event(&mut self, event: &Event) {
        if let Event::Clock(now) = event {
            // A lease that has ended may end again.
            self.checks_all |= *now < self.locks.now().micros();
        }
        self.locks.apply(event);
        match event {
            Event::Del(key) | Event::Restore(key, _) => {
                let waits = self.calls.waiting(key.0, &[key.1]) > 0;
                assert_eq!(self.calls.make_ready(key.0, &[key.1]), waits);
            }
            Event::MaxHolders(_) => drop(self.calls.make_all_ready()),
            Event::Pexpire(..) | Event::Persist(_) => self.checks_all = true,
            Event::Clock(_) | Event::Seen(_) => {}
        }
    }

    fn holder(&self, key: Key, owner: usize) -> Option<Holder<'_>> {
        self.locks.holders(key)?.find(name(owner))
    }

    /// All calls of the session, in parts.
    fn pass_over(&mut self, session: usize, is_passed_over: bool) {
        let (session, mut from) = (session_id(session), None);
        while {
            from = self.calls.pass_over(session, is_passed_over, from, 2);
            self.calls.check();
            from.is_some()
        } {}
    }

    fn call(&mut self, mut call: model::Call, wait: Option<Wait>) -> Reply {
        let (key, owner) = (call.key, call.owner);
        let (database, name_of_key) = (key.0, [key.1]);
        let after_the_line = matches!(call.verb, Verb::Acquire { .. } | Verb::Renew { .. });
        let gives_back = self.calls.gives_back(database, &name_of_key);
        let is_look = matches!(call.verb, Verb::Fence) && !gives_back;
        if !is_look && (self.settle(key) | after_the_line) {
            self.serve(key);
        }
        if let Verb::Acquire { in_line, holds, .. } = &mut call.verb {
            *in_line = self.calls.first_eligible(database, &name_of_key).is_some();
            if let (Some(wait), Some(holds)) = (wait.filter(|wait| wait.is_queued), *holds)
                && self.repeated(key, owner, wait.session, holds).is_some()
            {
                return Reply::Nil;
            }
        }
        let before = self.holder(key, owner).map(|holder| holder.grant.token);
        let mut reply = self.locks.call(call);
        if let (Verb::Release(Amount::All), None) = (call.verb, call.token)
            && self.cancel(key, owner)
            && matches!(reply, Reply::Error(_))
        {
            reply = Reply::Left(0);
        }
        match (call.verb, reply) {
            (Verb::Acquire { .. }, Reply::Nil) => {
                if let Some(wait) = wait {
                    self.join(call, wait);
                }
            }
            (Verb::Fence, _) | (_, Reply::Error(_)) => {}
            (verb, _) => {
                let after = self.holder(key, owner).map(|holder| holder.grant.token);
                if let (Some(before), Some(after)) = (before, after) {
                    let holder = (database, &name_of_key[..], name(owner));
                    self.calls.answered(holder, before);
                    if after != before {
                        self.calls.raise(holder, before, after);
                    }
                }
                let lock = (database, &name_of_key[..]);
                let own = self.calls.first_of(lock.0, lock.1, name(owner).bytes());
                match (verb, self.locks.holders(key)) {
                    // A restore or a swap had given it the lock: its calls are judged.
                    _ if own.is_some() => self.serve(key),
                    // It makes no room, and calls that had room came first.
                    (Verb::Acquire { .. }, _) => {}
                    // A renewal may shorten the lease that others wait for.
                    (Verb::Renew { .. }, Some(Holders::Exclusive(holder))) => {
                        let end = holder.end;
                        self.calls.cut_lease_end(lock.0, lock.1, end);
                    }
                    _ => self.serve(key),
                }
            }
        }
        reply
    }

    pub(super) fn repeated(
        &self,
        key: Key,
        owner: usize,
        session: Option<usize>,
        holds: u64,
    ) -> Option<CallId> {
        let call = (session_id(session?), count(holds));
        self.calls
            .repeated(key.0, &[key.1], name(owner).bytes(), call)
    }

    fn join(&mut self, call: model::Call, wait: Wait) {
        let Verb::Acquire {
            px, limit, holds, ..
        } = call.verb
        else {
            unreachable!("only an acquire waits")
        };
        let number = self.ids.len();
        let waiter = Waiter {
            lease: px.map(lease),
            holds: holds.map(count),
            limit: to_limit(limit),
            since: Monotonic(self.clock),
            session: wait.session.map(session_id),
            client_id: (!wait.is_queued).then_some(number as u64),
            until: (wait.millis > 0).then_some(Monotonic(self.clock + wait.millis)),
            ..Waiter::of(name(call.owner).bytes(), 0)
        };
        let before = self.calls.waiting(call.key.0, &[call.key.1]);
        let id = self.calls.join(call.key.0, &[call.key.1], waiter, ());
        assert_eq!(
            self.calls.place(id),
            Some(before),
            "the place of a new call"
        );
        let is_away = wait
            .session
            .is_some_and(|session| self.away.contains(&session));
        self.calls.pass_call_over(id, is_away);
        let before = self.numbers.insert(id, number);
        assert_eq!(before, None, "{id:?} is used twice");
        self.ids.push(id);
    }

    fn cancel(&mut self, key: Key, owner: usize) -> bool {
        let mut any = false;
        while let Some(id) = self.calls.first_of(key.0, &[key.1], name(owner).bytes()) {
            self.leave(id, End::Cancelled);
            any = true;
        }
        any
    }

    fn leave(&mut self, id: CallId, end: End) {
        self.calls.remove(id).expect("it waits");
        self.ended.push((self.numbers[&id], end));
    }

    fn tick(&mut self) {
        while let Some((end, id)) = self.calls.next_wait_end()
            && end <= Monotonic(self.clock)
        {
            self.leave(id, End::TimedOut);
        }
        self.calls
            .make_ended_ready(self.locks.now().millis(), usize::MAX);
        let mut due = BTreeSet::new();
        if std::mem::take(&mut self.checks_all) {
            due = self.all_turns();
        }
        while self.calls.ready_len() > 0 {
            due.extend(self.calls.take_ready().as_ref().map(key_of));
        }
        for key in due {
            self.settle(key);
            self.serve(key);
        }
        assert_eq!(
            self.all_turns(),
            self.calls.lock_ids().iter().map(key_of).collect()
        );
    }

    /// Serves every lock with waiting calls in its turn, which is in this round or in the next one.
    fn all_turns(&mut self) -> BTreeSet<Key> {
        let turns = 0..2 * self.calls.locks();
        turns
            .filter_map(|_| Some(key_of(&self.calls.next_turn()?)))
            .collect()
    }

    fn settle(&mut self, key: Key) -> bool {
        let mut makes_room = self.locks.end_leases(key);
        for give_back in self.calls.take_give_backs(key.0, &[key.1]) {
            makes_room = true;
            if let Some(amount) = give_back.amount_to_release(self.locks.holders(key).as_ref()) {
                let verb = Verb::Release(match amount {
                    ReleaseAmount::One => Amount::One,
                    ReleaseAmount::All => Amount::All,
                    ReleaseAmount::DownTo(count) => Amount::DownTo(count.into()),
                });
                let owner = number_of(give_back.owner.as_owner());
                self.locks.call(model::Call {
                    key,
                    owner,
                    token: Some(give_back.token().number()),
                    verb,
                });
            }
        }
        makes_room
    }

    /// Grants the lock to the calls that are next.
    fn serve(&mut self, key: Key) {
        let (database, name_of_key) = (key.0, [key.1]);
        let mut just_granted: Option<usize> = None;
        loop {
            self.calls.clear_ready(database, &name_of_key);
            let holders = self.locks.holders(key);
            if let Some(holders) = &holders {
                self.calls
                    .set_lease_end(database, &name_of_key, holders.next_end());
            }
            let lock = (database, &name_of_key[..]);
            let max_holders = self.locks.max_holders();
            let just = just_granted.map(name);
            let next = next_in_line(&mut self.calls, lock, holders.as_ref(), just, max_holders);
            let Some(id) = next else { return };
            let waiter = self.calls.get(id).expect("it waits").waiter.clone();
            if waiter
                .until
                .is_some_and(|until| until <= Monotonic(self.clock))
            {
                self.leave(id, End::TimedOut);
                continue;
            }
            let owner = number_of(waiter.owner.as_owner());
            let before = self.holder(key, owner).map(|holder| holder.grant);
            let verb = Verb::Acquire {
                px: waiter.lease.map(Lease::millis),
                limit: match waiter.limit {
                    Limit::NONE => NONE,
                    limit => limit.number().into(),
                },
                holds: waiter.holds.map(|holds| holds.number().into()),
                in_line: false,
            };
            match self.locks.call(model::Call {
                key,
                owner,
                token: None,
                verb,
            }) {
                Reply::Error(error) => self.leave(id, End::Refused(error)),
                Reply::Grant { .. } => {
                    let after = self.holder(key, owner).expect("a holder");
                    let taken = Taken {
                        token: after.grant.token,
                        took_hold: before.is_none_or(|before| after.grant.holds > before.holds),
                        holds: after.grant.holds,
                        deadline: after.end,
                    };
                    if waiter.is_queued() {
                        let call = self.calls.grant_queued(id, taken.token);
                        assert_eq!(call.expect("it waits").waiter, waiter);
                        let end = End::Told(taken.token.number());
                        self.ended.push((self.numbers[&id], end));
                    } else {
                        self.calls
                            .grant(id, taken, before.is_none())
                            .expect("it waits");
                    }
                    just_granted = Some(owner);
                }
                reply => panic!("it has room: {reply:?}"),
            }
        }
    }
}
