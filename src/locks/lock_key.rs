//! A lock in the keyspace: reading it, changing it and announcing the change.

use std::ffi::CStr;

use redis_lock_core::sharing::{
    Holders, Mismatch, ShareChange, ShareEffectBuffer, Shared, Step, Transition,
};
use redis_lock_core::{Deadline, EffectBuffer, Held, Record, Token, UnixTime};

use super::{RedisLock, effect, grant_end, last_token};
use crate::server::{self, Content, Context, Key, Stored, Text, Value};

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

    /// The event on the primary, concluded from the lock before the change.
    fn of(before: Option<&Holders<'_>>, transition: &Transition<'_>) -> Self {
        let (owner, after) = match transition {
            Transition::Alone(held) => (held.owner, held.grant),
            Transition::Share(ShareChange { step, .. }) => match step {
                Step::Only(share) | Step::Put(share) => (share.owner, share.grant),
                Step::Remove(_) => return Self::Release,
                Step::RemoveEnded(_) => return Self::Expire,
            },
            Transition::Keep | Transition::Free => return Self::Release,
        };
        match before.and_then(|holders| holders.grant_of(owner)) {
            Some((before, _)) if before.holds > after.holds => Self::Release,
            Some((before, _)) if before.holds == after.holds => Self::Renew,
            _ => Self::Acquire,
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

    /// The error where the key holds another type.
    pub(crate) fn check_type(&self) -> Result<(), WrongType> {
        self.0.holders().map(|_| ())
    }

    /// Who holds the lock; `None` when it is free, also when each lease has ended.
    pub(crate) fn holders(&self, now: UnixTime) -> Result<Option<Holders<'_>>, WrongType> {
        let holders = self.0.holders()?;
        Ok(holders.filter(|holders| match holders {
            Holders::Alone(_) => true,
            Holders::Shared(shared) => shared.live_count(now) > 0,
        }))
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

    /// Who holds the lock; `None` when it is free. Leases that have ended count until they are taken out.
    pub(crate) fn holders(&self) -> Result<Option<Holders<'_>>, WrongType> {
        match self.0.content() {
            Content::Empty => Ok(None),
            Content::Other => Err(WrongType),
            Content::Ours(Stored::Bytes(value)) => {
                let Record { owner, grant } = RedisLock::record(value);
                Ok(Some(Holders::Alone(Held {
                    owner,
                    grant,
                    deadline: self.deadline(),
                })))
            }
            Content::Ours(Stored::Large(shares)) => Ok(Some(Holders::Shared(Shared {
                shares,
                expiry: self.deadline(),
            }))),
        }
    }

    /// True when the key holds shares.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.0.content(), Content::Ours(Stored::Large(_)))
    }

    /// True when the key holds a lock of limit 1, whose one holder has it alone.
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self.0.content(), Content::Ours(Stored::Bytes(_)))
    }

    /// The one holder of a lock of limit 1, without looking up the deadline; `None` for every other lock.
    pub(crate) fn alone(&self) -> Option<Record<'_>> {
        match self.0.content() {
            Content::Ours(Stored::Bytes(value)) => Some(RedisLock::record(value)),
            _ => None,
        }
    }

    /// When the key expires.
    pub(crate) fn deadline(&self) -> Deadline {
        self.0.expiry().map_or(Deadline::Never, Deadline::At)
    }

    /// Makes a change and announces it: to `WATCH` and caches, to replicas and the append-only file, and as
    /// keyspace events.
    pub(crate) fn change(mut self, transition: &Transition<'_>, event: KeyspaceEvent) {
        if matches!(transition, Transition::Free) {
            let (context, name) = (self.0.context(), self.0.name());
            grant_end::while_releasing(|| self.0.delete());
            self.tell_free(Some(event), || effect::replicate_free(context, name));
        } else {
            self.hold(transition, &[event]);
        }
    }

    /// Frees the lock, as the last release, which is the command that is running.
    pub(crate) fn release(mut self) {
        let context = self.0.context();
        grant_end::while_releasing(|| self.0.delete());
        self.tell_free(Some(KeyspaceEvent::Release), || {
            effect::replicate_release(context);
        });
    }

    /// Lets everybody know that the key was deleted.
    fn tell_free(self, event: Option<KeyspaceEvent>, replicate: impl FnOnce()) {
        let (context, name) = (self.0.context(), self.0.name());
        // Closed before the change is announced: a listener may change the key.
        drop(self);
        context.signal_modified(name);
        replicate();
        if let Some(event) = event {
            context.notify_module_event(event.name(), name);
        }
        context.notify_generic_event(c"del", name);
    }

    /// Replaces the released grant by the next owner's.
    pub(crate) fn hand_over(self, transition: &Transition<'_>) {
        self.hold(
            transition,
            &[KeyspaceEvent::Release, KeyspaceEvent::Acquire],
        );
    }

    fn hold(mut self, transition: &Transition<'_>, events: &[KeyspaceEvent]) {
        let (context, name) = (self.0.context(), self.0.name());
        match transition {
            Transition::Keep | Transition::Free => return,
            Transition::Alone(held) => {
                let mut buffer = EffectBuffer::new();
                let effect = held.effect(&mut buffer);
                self.0.put_bytes(effect.record());
                self.set_expiry(held.deadline);
                // Closed before the change is announced: a listener may change the key.
                drop(self);
                context.signal_modified(name);
                effect::replicate(context, name, effect.bytes());
            }
            Transition::Share(change) => {
                if self.hold_share(change).is_err() {
                    server::warn("error: a shared lock was not as it was judged: it is removed");
                    remove(context, name);
                    return;
                }
            }
        }
        for event in events {
            context.notify_module_event(event.name(), name);
        }
    }

    #[inline(never)]
    fn hold_share(mut self, change: &ShareChange<'_>) -> Result<(), Mismatch> {
        let (context, name) = (self.0.context(), self.0.name());
        self.share(change)?;
        // Closed before the change is announced: a listener may change the key.
        drop(self);
        context.signal_modified(name);
        let mut buffer = ShareEffectBuffer::new();
        let seen = last_token().unwrap_or(Token::MAX);
        effect::replicate(context, name, change.effect(seen, &mut buffer));
        Ok(())
    }

    /// Makes a renewal of which only replicas and the append-only file are told, and nobody there.
    pub(crate) fn renew_quietly(mut self, transition: &Transition<'_>) {
        let (context, name) = (self.0.context(), self.0.name());
        match transition {
            Transition::Keep | Transition::Free => {}
            Transition::Alone(held) => {
                let mut buffer = EffectBuffer::new();
                let effect = held.quiet_effect(&mut buffer);
                self.0.put_bytes(effect.record());
                self.set_expiry(held.deadline);
                drop(self);
                effect::replicate(context, name, effect.bytes());
            }
            Transition::Share(change) => {
                if self.share(change).is_ok() {
                    drop(self);
                    let mut buffer = ShareEffectBuffer::new();
                    let seen = last_token().unwrap_or(Token::MAX);
                    effect::replicate(context, name, change.quiet_effect(seen, &mut buffer));
                }
            }
        }
    }

    /// Changes the shares of the lock.
    fn share(&mut self, change: &ShareChange<'_>) -> Result<(), Mismatch> {
        let new = match self.0.change_large(|shares| change.apply(Some(shares))) {
            Some(changed) => changed?,
            None => change.apply(None)?,
        };
        if let Some(shares) = new {
            self.0.put(Value::large(shares));
        }
        self.set_expiry(change.expiry());
        Ok(())
    }

    fn set_expiry(&mut self, deadline: Deadline) {
        self.0.set_expiry(match deadline {
            Deadline::At(at) => Some(at),
            Deadline::Never => None,
        });
    }
}

/// Makes a change that comes from the primary, a file or a user who may restore keys. The caller replicates
/// it, and is told an error where it was made for another lock. Of a quiet change nobody here is told.
pub(crate) fn apply(
    context: Context<'_>,
    name: Text<'_>,
    transition: &Transition<'_>,
    is_quiet: bool,
) -> Result<(), Mismatch> {
    let mut key = LockKey::open(context, name);
    let holders = key.holders().unwrap_or(None);
    let event = KeyspaceEvent::of(holders.as_ref(), transition);
    if let (Transition::Share(change), Some(Holders::Shared(shared))) = (transition, holders)
        && !context.is_from_stream()
    {
        // A user's mistake changes nothing.
        change.apply(Some(&mut shared.shares.clone()))?;
    }
    match transition {
        Transition::Keep | Transition::Free => {}
        Transition::Alone(held) => {
            let mut buffer = EffectBuffer::new();
            key.0.put_bytes(held.effect(&mut buffer).record());
            key.set_expiry(held.deadline);
        }
        Transition::Share(change) => key.share(change)?,
    }
    drop(key);
    if !is_quiet {
        context.signal_modified(name);
        context.notify_module_event(event.name(), name);
    }
    Ok(())
}

/// Frees the key, whatever it holds, as the primary or the file that is loaded says. The caller
/// replicates it.
pub(crate) fn apply_release(context: Context<'_>, name: Text<'_>) {
    delete(context, name, Some(KeyspaceEvent::Release), || {});
}

/// Removes what the key holds, which is out of date.
pub(crate) fn remove(context: Context<'_>, name: Text<'_>) {
    delete(context, name, None, || {
        effect::replicate_free(context, name);
    });
}

fn delete(
    context: Context<'_>,
    name: Text<'_>,
    event: Option<KeyspaceEvent>,
    replicate: impl FnOnce(),
) {
    let mut key = LockKey::open(context, name);
    if !matches!(key.0.content(), Content::Empty) {
        key.0.delete();
        key.tell_free(event, replicate);
    }
}
