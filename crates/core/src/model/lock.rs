//! The locks of a server under one token clock.

use std::collections::BTreeMap;

/// The wall clock counts microseconds; leases and their ends count milliseconds.
pub(crate) const MICROS: u64 = 1_000;
pub(crate) const MAX_HOLDS: u64 = 2_147_483_647;
/// Tokens are below this number, so that a double represents each of them exactly.
pub(crate) const TOKENS_END: u64 = 9_007_199_254_740_992;
/// The limit of a call that allows any number of holders: `SHARED`.
pub(crate) const NONE: u64 = u64::MAX;
/// The expiry of a key after `PERSIST`.
pub(crate) const NEVER: u64 = u64::MAX;

/// A database and the name of a key in it.
pub(crate) type Key = (i32, u8);

/// A lock command. Owners are numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) key: Key,
    /// Ignored by a fence.
    pub(crate) owner: usize,
    /// The grant that the call is tied to.
    pub(crate) token: Option<u64>,
    pub(crate) verb: Verb,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Verb {
    Acquire {
        px: Option<u64>,
        limit: u64,
        holds: Option<u64>,
        /// Other calls wait for the lock.
        in_line: bool,
    },
    Release(Amount),
    Renew {
        px: Option<u64>,
        limit: Option<u64>,
        /// Never together with a limit.
        raise: Option<u64>,
    },
    Fence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amount {
    One,
    All,
    DownTo(u64),
}

/// A change of locks, the clock or a setting without a lock command.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// The wall clock moves to this time, in microseconds.
    Clock(u64),
    Pexpire(Key, u64),
    Persist(Key),
    Del(Key),
    /// `RESTORE` of a lock with these holders.
    Restore(Key, Vec<Holder>),
    /// The server sees a token from another server or a file.
    Seen(u64),
    /// `CONFIG SET lock.max-holders`.
    MaxHolders(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Grant {
        token: u64,
        holds: u64,
        lease: u64,
        limit: u64,
    },
    Left(u64),
    Ok,
    /// There is no room, so the caller may wait.
    Nil,
    Error(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) owner: usize,
    /// The number of the grant. It stays when `RAISE` lifts the token.
    pub(crate) grant: u64,
    pub(crate) token: u64,
    pub(crate) holds: u64,
    /// The remembered lease.
    pub(crate) lease: u64,
    /// How many holders it allows, itself included.
    pub(crate) limit: u64,
    /// The holder holds the lock up to and at this time, in milliseconds.
    pub(crate) end: u64,
}

/// A key that holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lock {
    /// The holders in the order of their tokens. If the key outlives them, it counts as free.
    pub(crate) holders: Vec<Holder>,
    pub(crate) expiry: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) default_lease: u64,
    /// How far ahead of time a token may be raised, in milliseconds.
    pub(crate) max_lead: u64,
    pub(crate) max_holders: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) locks: BTreeMap<Key, Lock>,
    /// The highest token seen; 0 for none.
    pub(crate) seen: u64,
    /// The wall clock, in microseconds.
    pub(crate) now: u64,
    pub(crate) settings: Settings,
    /// How many grants there have been.
    pub(crate) grants: u64,
}

impl Holder {
    /// Restarts the lease, but never shortens it.
    fn refresh(&mut self, now: u64) {
        self.end = self.end.max(now + self.lease);
    }

    fn reply(&self) -> Reply {
        Reply::Grant {
            token: self.token,
            holds: self.holds,
            lease: self.lease,
            limit: self.limit,
        }
    }
}

impl Lock {
    /// A change applies to the holders whose lease has not ended, makes a manual `PEXPIRE` permanent, and sets the
    /// expiry of the key to the latest end.
    fn of(holders: Vec<Holder>) -> Option<Self> {
        let expiry = holders.iter().map(|holder| holder.end).max()?;
        Some(Self { holders, expiry })
    }

    /// A single holder with limit 1 has the lock exclusively, and the expiry of the key is the end of its lease.
    pub(crate) fn is_exclusive(&self) -> bool {
        matches!(&self.holders[..], [only] if only.limit == 1)
    }

    /// Any other lease ends at its own end or with the key, whichever is earlier.
    fn end_of(&self, holder: &Holder) -> u64 {
        if self.is_exclusive() {
            self.expiry
        } else {
            holder.end.min(self.expiry)
        }
    }
}

impl Server {
    pub(crate) fn new(now: u64, seen: u64, settings: Settings) -> Self {
        Self {
            locks: BTreeMap::new(),
            seen,
            now,
            settings,
            grants: 0,
        }
    }

    pub(crate) fn millis(&self) -> u64 {
        self.now / MICROS
    }

    /// The holders whose lease has not ended, with its end. The replies of all commands depend on these alone.
    pub(crate) fn holders(&self, key: Key) -> Vec<Holder> {
        let Some(lock) = self.locks.get(&key) else {
            return Vec::new();
        };
        let ends = lock.holders.iter().map(|holder| Holder {
            end: lock.end_of(holder),
            ..*holder
        });
        ends.filter(|holder| holder.end >= self.millis()).collect()
    }

    pub(crate) fn holder(&self, key: Key, owner: usize) -> Option<Holder> {
        let mut holders = self.holders(key).into_iter();
        holders.find(|holder| holder.owner == owner)
    }

    fn set(&mut self, key: Key, holders: Vec<Holder>) {
        match Lock::of(holders) {
            Some(lock) => drop(self.locks.insert(key, lock)),
            None => drop(self.locks.remove(&key)),
        }
    }

    fn set_expiry(&mut self, key: Key, expiry: u64) {
        if let Some(lock) = self.locks.get_mut(&key) {
            lock.expiry = expiry;
        }
    }

    /// Removes the holders whose lease has ended, before a call is judged that may change the lock. Returns true if
    /// there were any.
    pub(crate) fn end_leases(&mut self, key: Key) -> bool {
        let live = self.holders(key);
        let lock = self.locks.get(&key);
        let any_ended = lock.is_some_and(|lock| live.len() < lock.holders.len());
        if any_ended {
            self.set(key, live);
        }
        any_ended
    }

    /// The rule of sharing: with h holders, h + 1 exceeds neither the limit of the call nor the limit of any holder. No
    /// call has room beyond the setting, and every call has room in a free lock.
    pub(crate) fn has_room(&self, key: Key, limit: u64) -> bool {
        let holders = self.holders(key);
        let count = holders.len() as u64 + 1;
        holders.is_empty()
            || count <= self.settings.max_holders
                && count <= limit
                && holders.iter().all(|holder| count <= holder.limit)
    }

    /// The token of a new grant is higher than every token seen, and not behind the clock.
    pub(crate) fn new_token(&self) -> u64 {
        (self.seen + 1).max(self.now)
    }

    pub(crate) fn apply(&mut self, event: Event) {
        let millis = self.millis();
        match event {
            Event::Clock(now) => self.now = now,
            Event::Pexpire(key, ms) => self.set_expiry(key, millis + ms),
            Event::Persist(key) => self.set_expiry(key, NEVER),
            Event::Del(key) => drop(self.locks.remove(&key)),
            Event::Restore(key, mut holders) => {
                for holder in &mut holders {
                    self.grants += 1;
                    holder.grant = self.grants;
                    self.seen = self.seen.max(holder.token);
                }
                self.set(key, holders);
            }
            Event::Seen(token) => self.seen = self.seen.max(token),
            Event::MaxHolders(count) => self.settings.max_holders = count,
        }
        let millis = self.millis();
        self.locks.retain(|_, lock| lock.expiry >= millis);
    }

    /// Judges a call. A call that gets an error or nil changes nothing, and a fence never does.
    pub(crate) fn call(&mut self, call: Call) -> Reply {
        if !matches!(call.verb, Verb::Fence) {
            self.end_leases(call.key);
        }
        if let Some(error) = self.error(call) {
            return Reply::Error(error);
        }
        let mut holders = self.holders(call.key);
        let mine = holders.iter().position(|holder| holder.owner == call.owner);
        let reply = match (call.verb, mine) {
            (Verb::Fence, _) => return Reply::Ok,
            (
                Verb::Acquire {
                    px, limit, in_line, ..
                },
                None,
            ) => {
                // No new call passes the line.
                if in_line || !self.has_room(call.key, limit) {
                    return Reply::Nil;
                }
                let new = self.grant(call.owner, px, limit);
                holders.push(new);
                new.reply()
            }
            (
                Verb::Acquire {
                    px, limit, holds, ..
                },
                Some(index),
            ) => {
                let holder = &mut holders[index];
                re_enter(holder, px, limit, holds);
                holder.refresh(self.millis());
                holder.reply()
            }
            (Verb::Release(amount), Some(index)) => {
                let holder = &mut holders[index];
                let left = match amount {
                    Amount::One => holder.holds - 1,
                    Amount::All => 0,
                    Amount::DownTo(count) if count < holder.holds => count,
                    // The owner has no more holds than that, so nothing changes, not even the lease.
                    Amount::DownTo(_) => return Reply::Left(holder.holds),
                };
                // A release never widens the limit.
                holder.holds = left;
                holder.refresh(self.millis());
                if left == 0 {
                    holders.remove(index);
                }
                Reply::Left(left)
            }
            (Verb::Renew { px, limit, raise }, Some(index)) => {
                let holder = &mut holders[index];
                // A renewal may shorten.
                holder.lease = px.unwrap_or(holder.lease);
                holder.end = self.millis() + holder.lease;
                holder.limit = limit.unwrap_or(holder.limit);
                // A raise lifts the token of the grant, and the clock with it.
                holder.token = raise.unwrap_or(holder.token);
                self.seen = self.seen.max(holder.token);
                holder.reply()
            }
            (Verb::Release(_) | Verb::Renew { .. }, None) => unreachable!("an error"),
        };
        self.set(call.key, holders);
        reply
    }

    /// A new grant has one hold, the highest token, and the requested or default lease.
    fn grant(&mut self, owner: usize, px: Option<u64>, limit: u64) -> Holder {
        self.seen = self.new_token();
        self.grants += 1;
        let lease = px.unwrap_or(self.settings.default_lease);
        Holder {
            owner,
            grant: self.grants,
            token: self.seen,
            holds: 1,
            lease,
            limit,
            end: self.millis() + lease,
        }
    }
}

/// A re-entry adds a hold, or with `HOLDS n` only if there are fewer than n. The longer lease is remembered, and
/// the narrower limit is in force.
fn re_enter(holder: &mut Holder, px: Option<u64>, limit: u64, holds: Option<u64>) {
    if holds.is_none_or(|wanted| holder.holds < wanted) {
        holder.holds += 1;
    }
    holder.lease = holder.lease.max(px.unwrap_or(0));
    holder.limit = holder.limit.min(limit);
}
