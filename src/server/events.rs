//! Server events.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use redis_module::raw;

use super::Context;
use super::api::{OK, api};
use super::guard::guard_logged;

/// An event of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerEvent {
    /// The server forked a child to save, to rewrite the append-only file or to feed a replica.
    Forked,
    /// This server became a primary or a replica.
    RoleChanged,
    /// A database, or all of them, is about to be flushed.
    Flushing,
    /// A database, or all of them, was flushed.
    Flushed,
    /// Two databases were swapped.
    Swapped,
    /// A file was loaded, or loading it failed.
    Loaded,
    /// A replica is about to load its primary's data while it still has its own.
    LoadingBeside,
    /// Settings of the server were changed by command.
    Configured,
    /// The server's cron, ten times a second or more.
    Cron,
    /// An iteration of the event loop begins, after the loop has slept. The server has written the replies and closed
    /// the clients of the iteration before.
    LoopIteration,
    /// An iteration of the event loop ends. The server has not written its replies and closed its clients yet.
    LoopIterationEnds,
    /// A module was loaded, or is about to be unloaded.
    ModulesChanged,
    /// A client has disconnected. The context is that of this client.
    ClientDisconnected,
}

impl ServerEvent {
    const ALL: [Self; 13] = [
        Self::Forked,
        Self::RoleChanged,
        Self::Flushing,
        Self::Flushed,
        Self::Swapped,
        Self::Loaded,
        Self::LoadingBeside,
        Self::Configured,
        Self::Cron,
        Self::LoopIteration,
        Self::LoopIterationEnds,
        Self::ModulesChanged,
        Self::ClientDisconnected,
    ];

    const fn id(self) -> u64 {
        match self {
            Self::Forked => raw::REDISMODULE_EVENT_FORK_CHILD,
            Self::RoleChanged => raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
            Self::Flushing | Self::Flushed => raw::REDISMODULE_EVENT_FLUSHDB,
            Self::Swapped => raw::REDISMODULE_EVENT_SWAPDB,
            Self::Loaded => raw::REDISMODULE_EVENT_LOADING,
            Self::LoadingBeside => raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD,
            Self::Configured => raw::REDISMODULE_EVENT_CONFIG,
            Self::Cron => raw::REDISMODULE_EVENT_CRON_LOOP,
            Self::LoopIteration | Self::LoopIterationEnds => raw::REDISMODULE_EVENT_EVENTLOOP,
            Self::ModulesChanged => raw::REDISMODULE_EVENT_MODULE_CHANGE,
            Self::ClientDisconnected => raw::REDISMODULE_EVENT_CLIENT_CHANGE,
        }
    }

    const fn raw(self) -> raw::RedisModuleEvent {
        raw::RedisModuleEvent {
            id: self.id(),
            dataver: 1,
        }
    }

    fn of(event: u64, subevent: u64) -> Option<Self> {
        match event {
            raw::REDISMODULE_EVENT_FORK_CHILD
                if subevent == raw::REDISMODULE_SUBEVENT_FORK_CHILD_BORN =>
            {
                Some(Self::Forked)
            }
            raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED => Some(Self::RoleChanged),
            raw::REDISMODULE_EVENT_FLUSHDB
                if subevent == raw::REDISMODULE_SUBEVENT_FLUSHDB_START =>
            {
                Some(Self::Flushing)
            }
            raw::REDISMODULE_EVENT_FLUSHDB if subevent == raw::REDISMODULE_SUBEVENT_FLUSHDB_END => {
                Some(Self::Flushed)
            }
            raw::REDISMODULE_EVENT_SWAPDB => Some(Self::Swapped),
            raw::REDISMODULE_EVENT_MODULE_CHANGE => Some(Self::ModulesChanged),
            raw::REDISMODULE_EVENT_LOADING
                if subevent == raw::REDISMODULE_SUBEVENT_LOADING_ENDED
                    || subevent == raw::REDISMODULE_SUBEVENT_LOADING_FAILED =>
            {
                Some(Self::Loaded)
            }
            raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD
                if subevent == raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_STARTED =>
            {
                Some(Self::LoadingBeside)
            }
            raw::REDISMODULE_EVENT_CONFIG => Some(Self::Configured),
            raw::REDISMODULE_EVENT_CRON_LOOP => Some(Self::Cron),
            raw::REDISMODULE_EVENT_EVENTLOOP
                if subevent == raw::REDISMODULE_SUBEVENT_EVENTLOOP_AFTER_SLEEP =>
            {
                Some(Self::LoopIteration)
            }
            raw::REDISMODULE_EVENT_EVENTLOOP
                if subevent == raw::REDISMODULE_SUBEVENT_EVENTLOOP_BEFORE_SLEEP =>
            {
                Some(Self::LoopIterationEnds)
            }
            raw::REDISMODULE_EVENT_CLIENT_CHANGE
                if subevent == raw::REDISMODULE_SUBEVENT_CLIENT_CHANGE_DISCONNECTED =>
            {
                Some(Self::ClientDisconnected)
            }
            _ => None,
        }
    }
}

type Handler = fn(Context<'_>);

/// The handlers of each event.
type Handlers = [Vec<Handler>; ServerEvent::ALL.len()];

const NO_HANDLERS: Handlers = [const { Vec::new() }; ServerEvent::ALL.len()];

/// The handlers, which are called by the one callback that the server keeps for each event of a module.
static HANDLERS: Mutex<Handlers> = Mutex::new(NO_HANDLERS);

/// True once the module is loaded and subscribed.
static LISTENING: AtomicBool = AtomicBool::new(false);

fn handlers() -> MutexGuard<'static, Handlers> {
    HANDLERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `handler` for each such event once the module is loaded. The handler must not write keys, but may record the
/// event or arm a timer.
pub(crate) fn subscribe(context: Context<'_>, event: ServerEvent, handler: Handler) {
    handlers()[event as usize].push(handler);
    if LISTENING.load(Ordering::Relaxed) {
        listen(context, event, true);
    }
}

/// Stops calling a handler for such events. Must not be called in a handler of the same event, because the server would
/// then use memory that is freed here.
pub(crate) fn unsubscribe(context: Context<'_>, event: ServerEvent, handler: Handler) {
    let others = {
        let mut handlers = handlers();
        handlers[event as usize].retain(|other| !std::ptr::fn_addr_eq(*other, handler));
        let mut same = ServerEvent::ALL
            .into_iter()
            .filter(|of| of.id() == event.id());
        same.any(|of| !handlers[of as usize].is_empty())
    };
    if !others {
        listen(context, event, false);
    }
}

/// The databases that a flush or a swap has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Databases {
    /// All databases were flushed.
    All,
    /// One database was flushed.
    One(i32),
    /// Two databases were swapped.
    Two(i32, i32),
}

type DatabasesHandler = fn(Context<'_>, Databases);

/// The handlers for changes of databases.
static DATABASES_HANDLERS: Mutex<Vec<DatabasesHandler>> = Mutex::new(Vec::new());

fn databases_handlers() -> MutexGuard<'static, Vec<DatabasesHandler>> {
    DATABASES_HANDLERS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// Calls `handler` after each flush and each swap. Needs a subscription to those events.
pub(crate) fn on_databases(handler: DatabasesHandler) {
    databases_handlers().push(handler);
}

/// # Safety
///
/// `data` is the server's, for an event of this kind.
unsafe fn databases(event: ServerEvent, data: *const c_void) -> Option<Databases> {
    if data.is_null() {
        return None;
    }
    // SAFETY: by the caller's promise.
    unsafe {
        match event {
            ServerEvent::Flushed => {
                let info = data.cast::<raw::RedisModuleFlushInfo>();
                Some(match (*info).dbnum {
                    -1 => Databases::All,
                    database => Databases::One(database),
                })
            }
            ServerEvent::Swapped => {
                let info = data.cast::<raw::RedisModuleSwapDbInfo>();
                Some(Databases::Two((*info).dbnum_first, (*info).dbnum_second))
            }
            _ => None,
        }
    }
}

/// Subscribes to all server events that have handlers.
pub(super) fn begin(context: Context<'_>) -> Result<(), &'static str> {
    let mut events = ServerEvent::ALL.to_vec();
    events.retain(|event| !handlers()[*event as usize].is_empty());
    if events.iter().all(|event| listen(context, *event, true)) {
        LISTENING.store(true, Ordering::Relaxed);
        return Ok(());
    }
    for event in events {
        listen(context, event, false);
    }
    Err("the server does not report an event that the module needs")
}

/// Removes all handlers, because loading the module has failed.
pub(super) fn forget() {
    *handlers() = NO_HANDLERS;
    *databases_handlers() = Vec::new();
}

/// Lets the server call [`on_event`] for such events, or stops that. Returns false if the server refuses.
fn listen(context: Context<'_>, event: ServerEvent, on: bool) -> bool {
    let callback: raw::RedisModuleEventCallback = if on { Some(on_event) } else { None };
    // SAFETY: the context is live, and the callback stays for as long as the library is loaded;
    // without one the server forgets the one that it has.
    let code =
        unsafe { api!(RedisModule_SubscribeToServerEvent)(context.raw, event.raw(), callback) };
    code == OK
}

unsafe extern "C" fn on_event(
    raw: *mut raw::RedisModuleCtx,
    event: raw::RedisModuleEvent,
    subevent: u64,
    data: *mut c_void,
) {
    guard_logged((), || {
        let Some(event) = ServerEvent::of(event.id, subevent) else {
            return;
        };
        // SAFETY: the server's data of this event.
        if let Some(databases) = unsafe { databases(event, data) } {
            let handlers = databases_handlers().clone();
            for handler in handlers {
                // SAFETY: `raw` is the server's for the length of this call.
                handler(unsafe { Context::new(raw) }, databases);
            }
        }
        // Hold no lock during a handler, because it may call the server, which may call this function again.
        let mut index = 0;
        while let Some(handler) = nth_handler(event, index) {
            index += 1;
            // SAFETY: `raw` is the server's for the length of this call.
            handler(unsafe { Context::new(raw) });
        }
    });
}

fn nth_handler(event: ServerEvent, index: usize) -> Option<Handler> {
    handlers()[event as usize].get(index).copied()
}
