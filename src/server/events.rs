//! Server events: what happens to the server as a whole.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use redis_module::raw;

use super::Context;
use super::api::{OK, api};
use super::guard::guard_logged;

/// An event in the life of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerEvent {
    /// A child was forked, to save, to rewrite or to feed a replica; told to the parent.
    ForkBorn,
    /// This server became a primary or a replica.
    RoleChanged,
    /// A database, or all of them, is about to be flushed.
    Flushing,
    /// A database, or all of them, was flushed.
    Flushed,
    /// Two databases were swapped.
    Swapped,
    /// A file was loaded, whole or not.
    Loaded,
    /// Settings of the server were changed by command.
    Configured,
    /// The server's cron, ten times a second or more.
    Cron,
    /// The event loop has waited for something to do, and begins another iteration: what it had to
    /// write and to close before is written and closed.
    LoopIteration,
    /// A module was loaded, or is about to be gone.
    ModulesChanged,
    /// A client's connection is closed; the call is as if that client made it.
    ClientGone,
}

impl ServerEvent {
    const fn id(self) -> u64 {
        match self {
            Self::ForkBorn => raw::REDISMODULE_EVENT_FORK_CHILD,
            Self::RoleChanged => raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
            Self::Flushing | Self::Flushed => raw::REDISMODULE_EVENT_FLUSHDB,
            Self::Swapped => raw::REDISMODULE_EVENT_SWAPDB,
            Self::Loaded => raw::REDISMODULE_EVENT_LOADING,
            Self::Configured => raw::REDISMODULE_EVENT_CONFIG,
            Self::Cron => raw::REDISMODULE_EVENT_CRON_LOOP,
            Self::LoopIteration => raw::REDISMODULE_EVENT_EVENTLOOP,
            Self::ModulesChanged => raw::REDISMODULE_EVENT_MODULE_CHANGE,
            Self::ClientGone => raw::REDISMODULE_EVENT_CLIENT_CHANGE,
        }
    }

    const fn raw(self) -> raw::RedisModuleEvent {
        raw::RedisModuleEvent {
            id: self.id(),
            dataver: 1,
        }
    }

    fn of(event: u64, what: u64) -> Option<Self> {
        match event {
            raw::REDISMODULE_EVENT_FORK_CHILD
                if what == raw::REDISMODULE_SUBEVENT_FORK_CHILD_BORN =>
            {
                Some(Self::ForkBorn)
            }
            raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED => Some(Self::RoleChanged),
            raw::REDISMODULE_EVENT_FLUSHDB if what == raw::REDISMODULE_SUBEVENT_FLUSHDB_START => {
                Some(Self::Flushing)
            }
            raw::REDISMODULE_EVENT_FLUSHDB if what == raw::REDISMODULE_SUBEVENT_FLUSHDB_END => {
                Some(Self::Flushed)
            }
            raw::REDISMODULE_EVENT_SWAPDB => Some(Self::Swapped),
            raw::REDISMODULE_EVENT_MODULE_CHANGE => Some(Self::ModulesChanged),
            raw::REDISMODULE_EVENT_LOADING
                if what == raw::REDISMODULE_SUBEVENT_LOADING_ENDED
                    || what == raw::REDISMODULE_SUBEVENT_LOADING_FAILED =>
            {
                Some(Self::Loaded)
            }
            raw::REDISMODULE_EVENT_CONFIG => Some(Self::Configured),
            raw::REDISMODULE_EVENT_CRON_LOOP => Some(Self::Cron),
            raw::REDISMODULE_EVENT_EVENTLOOP
                if what == raw::REDISMODULE_SUBEVENT_EVENTLOOP_AFTER_SLEEP =>
            {
                Some(Self::LoopIteration)
            }
            raw::REDISMODULE_EVENT_CLIENT_CHANGE
                if what == raw::REDISMODULE_SUBEVENT_CLIENT_CHANGE_DISCONNECTED =>
            {
                Some(Self::ClientGone)
            }
            _ => None,
        }
    }
}

type Handler = fn(Context<'_>);

/// The server keeps one callback for each event of a module; these are behind it.
static HANDLERS: Mutex<Vec<(ServerEvent, Handler)>> = Mutex::new(Vec::new());

/// The module is loaded, and the server tells it of events.
static BEGUN: AtomicBool = AtomicBool::new(false);

fn handlers() -> MutexGuard<'static, Vec<(ServerEvent, Handler)>> {
    HANDLERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `handler` at each such event, as soon as the module is loaded.
///
/// Nothing may be written from there: the handler makes a note, or arms a timer.
pub(crate) fn subscribe(context: Context<'_>, event: ServerEvent, handler: Handler) {
    handlers().push((event, handler));
    if BEGUN.load(Ordering::Relaxed) {
        listen(context, event, true);
    }
}

/// Calls no handler at such events any more. Not from within a handler: the server goes on with what it
/// has freed here.
pub(crate) fn unsubscribe(context: Context<'_>, event: ServerEvent) {
    handlers().retain(|(of, _)| *of != event);
    listen(context, event, false);
}

/// Starts to listen to all that was subscribed to while the module was being loaded.
pub(super) fn begin(context: Context<'_>) -> Result<(), &'static str> {
    let events: Vec<_> = handlers().iter().map(|(event, _)| *event).collect();
    if events.iter().all(|event| listen(context, *event, true)) {
        BEGUN.store(true, Ordering::Relaxed);
        return Ok(());
    }
    for event in events {
        listen(context, event, false);
    }
    Err("the server does not tell of an event that the module has to know of")
}

/// Forgets all handlers: the module is not loaded, and the server may drop it as it stands.
pub(super) fn forget() {
    *handlers() = Vec::new();
}

/// Whether the server calls [`happened`] at such events from now on; false when it refuses.
fn listen(context: Context<'_>, event: ServerEvent, on: bool) -> bool {
    let callback: raw::RedisModuleEventCallback = if on { Some(happened) } else { None };
    // SAFETY: the context is live, and the callback stays for as long as the library is loaded;
    // without one the server forgets the one that it has.
    let code =
        unsafe { api!(RedisModule_SubscribeToServerEvent)(context.raw, event.raw(), callback) };
    code == OK
}

unsafe extern "C" fn happened(
    raw: *mut raw::RedisModuleCtx,
    event: raw::RedisModuleEvent,
    what: u64,
    _data: *mut c_void,
) {
    guard_logged((), || {
        let Some(event) = ServerEvent::of(event.id, what) else {
            return;
        };
        // A handler may call the server, and the server may come back here: no lock is held then.
        let mut index = 0;
        while let Some(handler) = nth_handler(event, index) {
            index += 1;
            // SAFETY: `raw` is the server's for the length of this call.
            handler(unsafe { Context::new(raw) });
        }
    });
}

fn nth_handler(event: ServerEvent, index: usize) -> Option<Handler> {
    let handlers = handlers();
    let mut of_event = handlers.iter().filter(|(of, _)| *of == event);
    of_event.nth(index).map(|(_, handler)| *handler)
}
