//! A naive model of one lock and its queue, written from the contract alone: a list of holders, every one
//! looked at each time, and every error that applies collected.

pub(super) const MICROS: u64 = 1_000;
pub(super) const MAX_HOLDS: u64 = 2_147_483_647;
pub(super) const TOKENS_END: u64 = 9_007_199_254_740_992;
/// The setting `lock.max-token-lead-ms`.
pub(super) const MAX_LEAD: u64 = 5_000;
/// The setting `lock.default-lease-ms`.
pub(super) const DEFAULT_LEASE: u64 = 30_000;

pub(super) const FULL: &str = "ERR hold count at its limit";
pub(super) const USED_UP: &str = "ERR tokens used up";
pub(super) const SEVERAL: &str = "ERR several holds";
pub(super) const NOT_RAISABLE: &str = "ERR not of limit 1";

/// The errors in the contract's order.
const ERRORS: [&str; 9] = [
    "NOTHELD",
    "NOTOWNER",
    "FENCED",
    "NOTALONE",
    "AHEAD",
    SEVERAL,
    NOT_RAISABLE,
    FULL,
    USED_UP,
];

/// A command in numbers. A limit of 0 is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) owner: usize,
    pub(super) token: Option<u64>,
    pub(super) verb: Verb,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Verb {
    Acquire {
        px: Option<u64>,
        limit: u64,
        holds: Option<u64>,
        block: bool,
    },
    Release(Amount),
    Renew {
        px: Option<u64>,
        limit: Option<u64>,
        raise: Option<u64>,
    },
    Fence,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Amount {
    One,
    All,
    Holds(u64),
}

/// What happens without a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Clock(u64),
    Pexpire(u64),
    Persist,
    Del,
    /// The setting `lock.max-holders`.
    MaxHolders(usize),
    /// The n-th call in line leaves it.
    Leave(usize),
    /// A token was seen elsewhere.
    Seen(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Grant {
        token: u64,
        holds: u64,
        lease: u64,
        limit: u64,
    },
    Left(u64),
    Ok,
    Nil,
    Waits,
    Error(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) owner: usize,
    pub(super) token: u64,
    pub(super) holds: u64,
    pub(super) lease: u64,
    /// 0 for none.
    pub(super) limit: u64,
    /// The end of its lease; `None` after `PERSIST` of a lock of limit 1.
    pub(super) end: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    number: usize,
    owner: usize,
    px: Option<u64>,
    limit: u64,
    holds: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct Model {
    /// In the order of their tokens. The ends of shares are their own.
    pub(super) holders: Vec<Holder>,
    /// The key's expiry; `None` when it has none, or when there is no key.
    pub(super) expiry: Option<u64>,
    pub(super) seen: u64,
    pub(super) now: u64,
    pub(super) max_holders: usize,
    waiting: Vec<Waiting>,
    joined: usize,
    /// What waiting calls were told, in order: their numbers and the replies.
    pub(super) told: Vec<(usize, Reply)>,
}

pub(super) fn within(limit: u64, count: usize) -> bool {
    limit == 0 || count as u64 <= limit
}

pub(super) fn narrower(one: u64, other: u64) -> bool {
    one != 0 && (other == 0 || one < other)
}

impl Model {
    pub(super) fn new(holders: Vec<Holder>, seen: u64, now: u64) -> Self {
        let mut model = Self {
            expiry: None,
            holders,
            seen,
            now,
            max_holders: 1000,
            waiting: Vec::new(),
            joined: 0,
            told: Vec::new(),
        };
        model.expiry = model.latest();
        model
    }

    pub(super) fn in_line(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn owner_in_line(&self, n: usize) -> Option<usize> {
        let index = n.checked_rem(self.waiting.len())?;
        Some(self.waiting[index].owner)
    }

    fn millis(&self) -> u64 {
        self.now / MICROS
    }

    /// One holder with limit 1: the key's expiry is its lease.
    fn is_exclusive(&self) -> bool {
        matches!(&self.holders[..], [only] if only.limit == 1)
    }

    fn latest(&self) -> Option<u64> {
        self.holders.iter().map(|holder| holder.end).max().flatten()
    }

    /// The end of a lease: its own or the key's, whichever is earlier.
    pub(super) fn end_of(&self, holder: &Holder) -> Option<u64> {
        match (holder.end, self.expiry) {
            _ if self.is_exclusive() => self.expiry,
            (end, None) => end,
            (end, Some(at)) => end.map(|end| end.min(at)),
        }
    }

    pub(super) fn live(&self) -> Vec<Holder> {
        let ended = |holder: &Holder| self.end_of(holder).is_some_and(|end| end < self.millis());
        let all = self.holders.iter().copied();
        all.filter(|holder| !ended(holder))
            .map(|holder| Holder {
                end: self.end_of(&holder),
                ..holder
            })
            .collect()
    }

    pub(super) fn apply(&mut self, event: Event) {
        match event {
            Event::Clock(now) => self.now = now,
            Event::Pexpire(ms) if !self.holders.is_empty() => {
                self.expiry = Some(self.millis() + ms);
            }
            Event::Persist => self.expiry = None,
            Event::Del => self.holders.clear(),
            Event::MaxHolders(count) => self.max_holders = count,
            Event::Leave(n) => drop(self.waiting.remove(n)),
            Event::Seen(token) => self.seen = self.seen.max(token),
            Event::Pexpire(_) => {}
        }
        if self.expiry.is_some_and(|at| at < self.millis()) {
            self.holders.clear();
        }
        if self.holders.is_empty() {
            self.expiry = None;
        }
    }

    /// What is due before any call: ended shares go, and those in front are granted.
    pub(super) fn tick(&mut self) {
        let live = self.live();
        if live.len() < self.holders.len() {
            self.settle(live);
        }
        self.serve(None);
    }

    /// These are the holders now. Their ends are those that a cut by hand gave them.
    fn settle(&mut self, holders: Vec<Holder>) {
        self.holders = holders;
        self.expiry = self.latest();
    }

    fn serve(&mut self, granted: Option<usize>) {
        let mut granted = granted;
        loop {
            let own = self
                .waiting
                .iter()
                .position(|call| Some(call.owner) == granted);
            let holds_it = |call: &Waiting| self.holders.iter().any(|h| h.owner == call.owner);
            let next = own.or_else(|| {
                if self.is_exclusive() {
                    return self.waiting.iter().position(holds_it);
                }
                let first = self.waiting.first()?;
                (self.has_room(first.limit) || holds_it(first)).then_some(0)
            });
            let Some(index) = next else { return };
            let call = self.waiting.remove(index);
            let verb = Verb::Acquire {
                px: call.px,
                limit: call.limit,
                holds: call.holds,
                block: false,
            };
            let reply = self.judge(
                Call {
                    owner: call.owner,
                    token: None,
                    verb,
                },
                false,
            );
            assert_ne!(reply, Reply::Nil, "it has room");
            self.told.push((call.number, reply));
            if matches!(reply, Reply::Grant { .. }) {
                granted = Some(call.owner);
            }
        }
    }

    fn has_room(&self, limit: u64) -> bool {
        let count = self.holders.len() + 1;
        self.holders.is_empty()
            || (count <= self.max_holders
                && within(limit, count)
                && self.holders.iter().all(|h| within(h.limit, count)))
    }

    pub(super) fn call(&mut self, call: Call) -> Reply {
        self.tick();
        let in_line = !self.waiting.is_empty();
        let mut reply = self.judge(call, in_line);
        if let (
            Verb::Acquire {
                px,
                limit,
                holds,
                block: true,
            },
            Reply::Nil,
        ) = (call.verb, reply)
        {
            self.waiting.push(Waiting {
                number: self.joined,
                owner: call.owner,
                px,
                limit,
                holds,
            });
            self.joined += 1;
            reply = Reply::Waits;
        }
        let granted =
            matches!(call.verb, Verb::Acquire { .. }) && matches!(reply, Reply::Grant { .. });
        self.serve(granted.then_some(call.owner));
        reply
    }

    fn judge(&mut self, call: Call, in_line: bool) -> Reply {
        let errors = self.errors(call);
        if let Some(first) = ERRORS.into_iter().find(|error| errors.contains(error)) {
            return Reply::Error(first);
        }
        let exclusive = self.is_exclusive();
        let mut live = self.live();
        let mine = live.iter().position(|holder| holder.owner == call.owner);
        let start = self.millis();
        let reply = |holder: Holder| Reply::Grant {
            token: holder.token,
            holds: holder.holds,
            lease: holder.lease,
            limit: holder.limit,
        };
        match (call.verb, mine) {
            (Verb::Fence, _) => Reply::Ok,
            (Verb::Acquire { px, limit, .. }, None) => {
                if !self.has_room(limit) {
                    return Reply::Nil;
                }
                if self.new_token() >= TOKENS_END {
                    return Reply::Error(USED_UP);
                }
                if in_line {
                    return Reply::Nil;
                }
                let lease = px.unwrap_or(DEFAULT_LEASE);
                self.seen = self.new_token();
                let holder = Holder {
                    owner: call.owner,
                    token: self.seen,
                    holds: 1,
                    lease,
                    limit,
                    end: Some(start + lease),
                };
                live.push(holder);
                self.settle(live);
                reply(holder)
            }
            (
                Verb::Acquire {
                    px, limit, holds, ..
                },
                Some(index),
            ) => {
                let holder = &mut live[index];
                if holds.is_none_or(|n| holder.holds < n) {
                    holder.holds += 1;
                }
                holder.lease = holder.lease.max(px.unwrap_or(0));
                holder.end = holder.end.map(|end| end.max(start + holder.lease));
                if narrower(limit, holder.limit) {
                    holder.limit = limit;
                }
                let told = reply(*holder);
                self.settle(live);
                told
            }
            (Verb::Release(amount), Some(index)) => {
                let holder = &mut live[index];
                let left = match amount {
                    Amount::One => holder.holds - 1,
                    Amount::All => 0,
                    Amount::Holds(n) if n >= holder.holds => return Reply::Left(holder.holds),
                    Amount::Holds(n) => n,
                };
                holder.holds = left;
                holder.end = holder.end.map(|end| end.max(start + holder.lease));
                if left == 0 {
                    live.remove(index);
                }
                self.settle(live);
                Reply::Left(left)
            }
            (Verb::Renew { px, limit, raise }, Some(index)) => {
                assert!(raise.is_none() || exclusive);
                let holder = &mut live[index];
                holder.lease = px.unwrap_or(holder.lease);
                holder.end = Some(start + holder.lease);
                holder.limit = limit.unwrap_or(holder.limit);
                if let Some(raise) = raise {
                    holder.token = raise;
                    self.seen = self.seen.max(raise);
                }
                let told = reply(*holder);
                self.settle(live);
                told
            }
            (Verb::Release(_) | Verb::Renew { .. }, None) => unreachable!("an error"),
        }
    }

    fn new_token(&self) -> u64 {
        (self.seen + 1).max(self.now)
    }
}
