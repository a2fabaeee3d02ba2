//! A lock in the keyspace: reading it, changing it and announcing the change.

use std::ffi::CStr;

use redis_lock_core::{Change, Deadline, Effect, EffectBuffer, Grant, Held, Owner, Record};

use super::{RedisLock, effect, grant_end};
use crate::server::{Content, Context, Key, Text};

/// The key holds a value of another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrongType;

/// The keyspace event that a change raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyspaceEvent {
    Acquire,
    Renew,
    Release,
}

impl KeyspaceEvent {
    const fn name(self) -> &'static CStr {
        match self {
            Self::Acquire => c"lock.acquire",
            Self::Renew => c"lock.renew",
            Self::Release => c"lock.release",
        }
    }

    /// The event on the primary, concluded from the lock before and after it.
    fn between(before: Option<&Held<'_>>, after: &Held<'_>) -> Self {
        match before {
            Some(held) if held.owner == after.owner && held.grant.holds > after.grant.holds => {
                Self::Release
            }
            Some(held) if held.owner == after.owner && held.grant.holds == after.grant.holds => {
                Self::Renew
            }
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

    /// The lock; `None` when it is free.
    pub(crate) fn held(&self) -> Result<Option<Held<'_>>, WrongType> {
        self.0.held()
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

    /// The lock; `None` when it is free.
    pub(crate) fn held(&self) -> Result<Option<Held<'_>>, WrongType> {
        Ok(self.record()?.map(|Record { owner, grant }| Held {
            owner,
            grant,
            deadline: self.deadline(),
        }))
    }

    /// As [`LockKey::held`], without looking up the deadline.
    pub(crate) fn record(&self) -> Result<Option<Record<'_>>, WrongType> {
        match self.0.content() {
            Content::Empty => Ok(None),
            Content::Other => Err(WrongType),
            Content::Ours(value) => Ok(Some(RedisLock::record(value))),
        }
    }

    /// The deadline of a held lock.
    pub(crate) fn deadline(&self) -> Deadline {
        self.0.expiry().map_or(Deadline::Never, Deadline::At)
    }

    /// Makes a change for `owner` and announces it: to `WATCH` and caches, to replicas and the append-only
    /// file, and as keyspace events.
    pub(crate) fn change(mut self, owner: Owner<'_>, change: Change, event: KeyspaceEvent) {
        let (context, name) = (self.0.context(), self.0.name());
        match change {
            Change::Keep => {}
            Change::Hold(grant, deadline) => self.hold(
                &Held {
                    owner,
                    grant,
                    deadline,
                },
                &[event],
            ),
            Change::Free => {
                grant_end::while_releasing(|| self.0.delete());
                self.tell_free(Some(event), || effect::replicate_free(context, name));
            }
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
    pub(crate) fn hand_over(self, owner: Owner<'_>, grant: Grant, deadline: Deadline) {
        let held = Held {
            owner,
            grant,
            deadline,
        };
        self.hold(&held, &[KeyspaceEvent::Release, KeyspaceEvent::Acquire]);
    }

    fn hold(mut self, held: &Held<'_>, events: &[KeyspaceEvent]) {
        let (context, name) = (self.0.context(), self.0.name());
        let mut buffer = EffectBuffer::new();
        let effect = held.effect(&mut buffer);
        self.write(effect, held.deadline);
        // Closed before the change is announced: a listener may change the key.
        drop(self);
        context.signal_modified(name);
        effect::replicate(context, name, effect);
        for event in events {
            context.notify_module_event(event.name(), name);
        }
    }

    fn write(&mut self, effect: Effect<'_>, deadline: Deadline) {
        if matches!(self.0.content(), Content::Ours(_)) {
            self.0.update(effect.record());
        } else {
            self.0.create(effect.record());
        }
        self.0.set_expiry(match deadline {
            Deadline::At(at) => Some(at),
            Deadline::Never => None,
        });
    }
}

/// Replaces what the key holds by this lock, which comes from the primary or a file. The caller replicates
/// it.
pub(crate) fn apply(context: Context<'_>, name: Text<'_>, held: &Held<'_>) {
    let mut key = LockKey::open(context, name);
    let event = KeyspaceEvent::between(key.held().unwrap_or(None).as_ref(), held);
    key.write(held.effect(&mut EffectBuffer::new()), held.deadline);
    drop(key);
    context.signal_modified(name);
    context.notify_module_event(event.name(), name);
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
