//! Reads and changes a lock in the keyspace, and announces the changes.

use std::ffi::CStr;

use redis_lock_core::{
    Deadline, EffectBuffer, Holder, Holders, LockChange, Mismatch, Release, SharedChange,
    SharedLock, SharedStep, Token, UnixTime,
};

use super::{RedisLock, effect, grant_end, last_token};
use crate::server::{self, Content, Context, Key, Text, Value, ValueRef};

/// The key holds a value of another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrongType;

/// The keyspace event that a change raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyspaceEvent {
    Acquire,
    Renew,
    Release,
    Expire,
}

impl KeyspaceEvent {
    const fn name(self) -> &'static CStr {
        match self {
            Self::Acquire => c"lock.acquire",
            Self::Renew => c"lock.renew",
            Self::Release => c"lock.release",
            Self::Expire => c"lock.expire",
        }
    }

    /// Derives the event that the primary raised from the lock before the change, because the effect does not contain
    /// it.
    fn of(before: Option<&Holders<'_>>, change: &LockChange<'_>) -> Self {
        let Some(after) = change.holder() else {
            let ends_leases = matches!(
                change,
                LockChange::Shared(SharedChange {
                    step: SharedStep::RemoveEnded(_),
                    ..
                })
            );
            return if ends_leases {
                Self::Expire
            } else {
                Self::Release
            };
        };
        match before.and_then(|holders| holders.find(after.owner)) {
            Some(before) if before.grant.holds > after.grant.holds => Self::Release,
            Some(before) if before.grant.holds == after.grant.holds => Self::Renew,
            _ => Self::Acquire,
        }
    }
}

/// How a change is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announce<'a> {
    /// To `WATCH` and client-side caches, to replicas and the append-only file, and as these keyspace events.
    Events(&'a [KeyspaceEvent]),
    /// As the release that frees the lock. The running command is that release and is replicated as sent.
    LastRelease,
    /// Only to replicas and the append-only file, which do not announce it either.
    Quietly,
    /// To `WATCH` and client-side caches, and as this keyspace event; not at all if there is no event. Nothing is
    /// replicated here, because the running command comes from the stream and replicates itself.
    FromStream(Option<KeyspaceEvent>),
}

impl Announce<'_> {
    /// Announces a change. `effect` is the encoded change; `None` when the key was deleted.
    ///
    /// The key must be closed before, because a listener may change it.
    #[expect(clippy::inline_always, reason = "saves 50 instructions of a pair")]
    #[inline(always)]
    fn send(self, context: Context<'_>, name: Text<'_>, effect: Option<&[u8]>) {
        if !matches!(self, Self::Quietly | Self::FromStream(None)) {
            context.signal_modified(name);
        }
        match (self, effect) {
            (Self::FromStream(_), _) => {}
            (Self::LastRelease, _) => effect::replicate_release(context),
            (_, Some(effect)) => effect::replicate(context, name, effect),
            (_, None) => effect::replicate_free(context, name),
        }
        let events = match &self {
            Self::Events(events) => events,
            Self::LastRelease => &[KeyspaceEvent::Release][..],
            Self::Quietly => &[],
            Self::FromStream(event) => event.as_slice(),
        };
        for event in events {
            context.notify_module_event(event.name(), name);
        }
        if effect.is_none() {
            context.notify_generic_event(c"del", name);
        }
    }
}

/// The key of a lock, open for reading during a command.
pub(crate) struct LockView<'call>(LockKey<'call>);

impl<'call> LockView<'call> {
    /// Opens the key of a lock for reading.
    pub(crate) fn open(context: Context<'call>, name: Text<'call>) -> Self {
        Self(LockKey(Key::read(context, name)))
    }

    /// Returns an error if the key holds another type.
    pub(crate) fn check_type(&self) -> Result<(), WrongType> {
        self.0.holders().map(|_| ())
    }

    /// The holders of the lock; `None` if it is free or all leases have ended.
    pub(crate) fn holders(&self, now: UnixTime) -> Result<Option<Holders<'_>>, WrongType> {
        let holders = self.0.holders()?;
        Ok(holders.filter(|holders| holders.live_count(now) > 0))
    }
}

/// The key of a lock, open for writing during a command.
pub(crate) struct LockKey<'call>(Key<'call, RedisLock>);

impl<'call> LockKey<'call> {
    /// Opens the key of a lock for writing.
    pub(crate) fn open(context: Context<'call>, name: Text<'call>) -> Self {
        Self(Key::write(context, name))
    }

    pub(crate) const fn name(&self) -> Text<'call> {
        self.0.name()
    }

    pub(crate) const fn context(&self) -> Context<'call> {
        self.0.context()
    }

    /// The holders of the lock; `None` if it is free. Includes holders whose lease has ended but who are not removed
    /// yet.
    pub(crate) fn holders(&self) -> Result<Option<Holders<'_>>, WrongType> {
        Ok(match self.0.content() {
            Content::Empty => None,
            Content::Other => return Err(WrongType),
            Content::Ours(ValueRef::Bytes(record)) => {
                Some(Holders::Exclusive(RedisLock::holder(record, self.expiry())))
            }
            Content::Ours(ValueRef::Large(set)) => Some(Holders::Shared(SharedLock {
                set,
                expiry: self.expiry(),
            })),
        })
    }

    /// Like [`LockKey::holders`], but for this release. A release that frees an exclusive lock does not need the end of
    /// the lease, and reading that costs 450 instructions.
    pub(crate) fn holders_to_release(
        &self,
        call: &Release<'_>,
    ) -> Result<Option<Holders<'_>>, WrongType> {
        if let Content::Ours(ValueRef::Bytes(record)) = self.0.content() {
            let holder = RedisLock::holder(record, Deadline::Never);
            if call.amount.left_of(holder.grant.holds).is_none() {
                return Ok(Some(Holders::Exclusive(holder)));
            }
        }
        self.holders()
    }

    /// Returns true if the lock has several holders, or one with a wider limit than 1.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.0.content(), Content::Ours(ValueRef::Large(_)))
    }

    /// Returns true if the lock has one holder with limit 1.
    pub(crate) fn is_exclusive(&self) -> bool {
        matches!(self.0.content(), Content::Ours(ValueRef::Bytes(_)))
    }

    fn expiry(&self) -> Deadline {
        self.0.expiry().map_or(Deadline::Never, Deadline::At)
    }

    /// Makes and announces a change. If the change does not fit the lock, removes the lock.
    #[inline]
    pub(crate) fn write(self, change: &LockChange<'_>, announce: Announce<'_>) {
        let (context, name) = (self.0.context(), self.0.name());
        if self.try_write(change, announce).is_err() {
            server::warn("error: a shared lock changed unexpectedly: it is removed");
            remove(context, name);
        }
    }

    #[inline]
    fn try_write(self, change: &LockChange<'_>, announce: Announce<'_>) -> Result<(), Mismatch> {
        match change {
            LockChange::Keep => {}
            LockChange::Free => self.free(announce),
            LockChange::Exclusive(holder) => self.set_holder(holder, announce),
            LockChange::Shared(change) => return self.change_holders(change, announce),
        }
        Ok(())
    }

    fn free(mut self, announce: Announce<'_>) {
        let (context, name) = (self.0.context(), self.0.name());
        grant_end::while_releasing(|| self.0.delete());
        drop(self);
        announce.send(context, name, None);
    }

    fn set_holder(mut self, holder: &Holder<'_>, announce: Announce<'_>) {
        let (context, name) = (self.0.context(), self.0.name());
        let mut buffer = EffectBuffer::new();
        let effect = holder.effect(announce == Announce::Quietly, &mut buffer);
        self.0.put_bytes(effect.record());
        self.set_expiry(holder.end);
        drop(self);
        announce.send(context, name, Some(effect.bytes()));
    }

    #[inline(never)]
    fn change_holders(
        mut self,
        change: &SharedChange<'_>,
        announce: Announce<'_>,
    ) -> Result<(), Mismatch> {
        let (context, name) = (self.0.context(), self.0.name());
        let new = match self.0.change_large(|set| change.apply(Some(set))) {
            Some(changed) => changed?,
            None => change.apply(None)?,
        };
        if let Some(set) = new {
            self.0.put(Value::large(set));
        }
        self.set_expiry(change.expiry());
        drop(self);
        let mut buffer = EffectBuffer::new();
        // Never `MAX`, because this server has seen the tokens of the holders.
        let seen = last_token().unwrap_or(Token::MAX);
        let effect = change.effect(seen, announce == Announce::Quietly, &mut buffer);
        announce.send(context, name, Some(effect));
        Ok(())
    }

    fn set_expiry(&mut self, deadline: Deadline) {
        self.0.set_expiry(match deadline {
            Deadline::At(at) => Some(at),
            Deadline::Never => None,
        });
    }
}

/// Makes a change that comes from the primary, from a file, or from a user with the rights of `RESTORE`. A quiet change
/// is not announced. The caller replicates the change.
///
/// Fails if the change does not fit the lock. A user's change is tried on a copy first, so that a failure leaves the
/// lock unchanged. After a failure in the stream, the caller must remove the lock.
pub(crate) fn apply(
    context: Context<'_>,
    name: Text<'_>,
    change: &LockChange<'_>,
    is_quiet: bool,
) -> Result<(), Mismatch> {
    let key = LockKey::open(context, name);
    let holders = key.holders().unwrap_or(None);
    let event = KeyspaceEvent::of(holders.as_ref(), change);
    if let (LockChange::Shared(change), Some(Holders::Shared(lock))) = (change, holders)
        && !context.is_from_stream()
    {
        change.apply(Some(&mut lock.set.clone()))?;
    }
    key.try_write(change, Announce::FromStream((!is_quiet).then_some(event)))
}

/// Deletes the key, whatever it holds, for a release that comes from the primary or a file. The caller replicates it.
pub(crate) fn apply_release(context: Context<'_>, name: Text<'_>) {
    delete(
        context,
        name,
        Announce::FromStream(Some(KeyspaceEvent::Release)),
    );
}

/// Deletes the key, whatever it holds, because its lock is outdated.
pub(crate) fn remove(context: Context<'_>, name: Text<'_>) {
    delete(context, name, Announce::Events(&[]));
}

fn delete(context: Context<'_>, name: Text<'_>, announce: Announce<'_>) {
    let mut key = LockKey::open(context, name);
    if !matches!(key.0.content(), Content::Empty) {
        key.0.delete();
        drop(key);
        announce.send(context, name, None);
    }
}
