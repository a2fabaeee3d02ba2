//! Locks as a server keeps them in memory, and the server's own changes of their keys.

use std::collections::BTreeMap;

use super::numbers::from_model;
use crate::model::lock::{Event, Key};
use crate::{
    Deadline, EffectBuffer, Holder, HolderSet, Holders, Limit, LockChange, SharedLock,
    StoredHolder, UnixTime,
};

/// The locks in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Locks(pub(super) BTreeMap<Key, Stored>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// The record of the holder, and the expiry of the key.
    Exclusive(Vec<u8>, Deadline),
    Shared(HolderSet, Deadline),
}

impl Stored {
    fn holders(&self) -> Holders<'_> {
        match self {
            Self::Exclusive(record, end) => {
                Holders::Exclusive(Holder::read(record, Limit::ONE, *end).expect("a record"))
            }
            Self::Shared(set, expiry) => Holders::Shared(SharedLock {
                set,
                expiry: *expiry,
            }),
        }
    }

    pub(super) const fn expiry(&mut self) -> &mut Deadline {
        match self {
            Self::Exclusive(_, expiry) | Self::Shared(_, expiry) => expiry,
        }
    }

    /// The lock as `RESTORE` makes it of the fields that `DUMP` has written.
    fn restored(fields: &[StoredHolder<'_>]) -> Self {
        let mut set = None;
        for fields in fields {
            let holder = Holder::try_from(*fields).expect("sound fields");
            if holder.limit == Limit::ONE {
                return Self::exclusive(&holder);
            }
            HolderSet::add_stored(&mut set, &holder).expect("it fits");
        }
        let set = HolderSet::finish_stored(set).expect("shared holders");
        let expiry = set.latest_end();
        Self::Shared(set, expiry)
    }

    fn exclusive(holder: &Holder<'_>) -> Self {
        let mut buffer = EffectBuffer::new();
        let record = holder.effect(false, &mut buffer).record().to_vec();
        Self::Exclusive(record, holder.end)
    }

    /// Checks that the lock stays the same when it is read from a file, or rewritten as effects.
    pub(super) fn check(&self) {
        let Self::Shared(set, _) = self else { return };
        assert!(
            set.least_limit().allows(set.count()),
            "more holders than one allows"
        );
        let fields: Vec<_> = set.iter().map(StoredHolder::from).collect();
        let mut settled = self.clone();
        *settled.expiry() = set.latest_end();
        assert_eq!(Self::restored(&fields), settled);
        let mut anew = Locks::default();
        for change in set.rewrite() {
            anew.change((0, 0), &LockChange::Shared(change));
        }
        *settled.expiry() = Deadline::Never;
        assert_eq!(anew.0.remove(&(0, 0)), Some(settled));
    }
}

impl Locks {
    pub(super) fn holders(&self, key: Key) -> Option<Holders<'_>> {
        self.0.get(&key).map(Stored::holders)
    }

    pub(super) fn change(&mut self, key: Key, change: &LockChange<'_>) {
        match change {
            LockChange::Keep => {}
            LockChange::Free => drop(self.0.remove(&key)),
            LockChange::Exclusive(holder) => {
                self.0.insert(key, Stored::exclusive(holder));
            }
            LockChange::Shared(change) => {
                let set = match self.0.get_mut(&key) {
                    Some(Stored::Shared(set, _)) => Some(set),
                    _ => None,
                };
                if let Some(new) = change.apply(set).expect("the lock that it was made for") {
                    self.0.insert(key, Stored::Shared(new, Deadline::Never));
                }
                self.set_expiry(key, change.expiry());
            }
        }
    }

    fn set_expiry(&mut self, key: Key, expiry: Deadline) {
        if let Some(lock) = self.0.get_mut(&key) {
            *lock.expiry() = expiry;
        }
    }

    /// The server's own changes of keys.
    pub(super) fn apply(&mut self, event: &Event, now: UnixTime) {
        match event {
            Event::Pexpire(key, ms) => self.set_expiry(*key, Deadline::At(now.millis() + ms)),
            Event::Persist(key) => self.set_expiry(*key, Deadline::Never),
            Event::Del(key) => drop(self.0.remove(key)),
            Event::Restore(key, holders) => {
                let holders: Vec<_> = holders.iter().map(from_model).collect();
                let fields: Vec<_> = holders.iter().map(|h| StoredHolder::from(*h)).collect();
                self.0.insert(*key, Stored::restored(&fields));
            }
            Event::Clock(_) | Event::Seen(_) | Event::MaxHolders(_) => {}
        }
        self.0.retain(|_, lock| !lock.expiry().has_passed(now));
    }
}
