//! Blocked clients.
//!
//! A blocked client is unblocked exactly once:
//!
//! * by the module: [`Blocked::answer`] passes the answer to the server, which calls
//!   [`BlockedCallbacks::reply`] from the event loop;
//! * by a disconnect, or by the server with an error: the server calls [`BlockedCallbacks::disconnected`], even if the
//!   module has passed an answer already;
//! * by `CLIENT UNBLOCK … TIMEOUT`, on servers that do that safely: [`BlockedCallbacks::unblocked`].
//!
//! Unblocking a client twice would free it twice. So [`Blocked::answer`] takes the handle by value, and the two
//! callbacks return it only if no answer was passed.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ptr;

use redis_module::raw;

use super::Context;
use super::api::{OK, api};
use super::guard::guard_logged;

/// The first server version that unblocks a module's client without losing a reply.
const UNBLOCKS_SAFELY: c_int = 0x0007_0400;

/// A client that is blocked for `W`, until it is answered.
pub(crate) struct Blocked<W> {
    raw: *mut raw::RedisModuleBlockedClient,
    callbacks: PhantomData<fn(W)>,
}

// SAFETY: the handle is only passed back to the server, under the server's global lock.
unsafe impl<W> Send for Blocked<W> {}

/// The callbacks for one kind of blocked clients.
pub(crate) trait BlockedCallbacks: Sized + 'static {
    /// The answer to the client.
    type Answer: Send;

    /// Writes the answer. The context of all three callbacks is that of the client.
    fn reply(context: Context<'_>, answer: &Self::Answer);

    /// Handles a disconnect of the client, or an answer by the server. Returns the handle if no answer was passed.
    fn disconnected(context: Context<'_>) -> Option<Blocked<Self>>;

    /// Writes the reply after `CLIENT UNBLOCK … TIMEOUT`. Returns the handle if no answer was passed.
    fn unblocked(context: Context<'_>) -> Option<Blocked<Self>>;
}

impl<W: BlockedCallbacks> Blocked<W> {
    /// Blocks the calling client, whose flags must allow it. Returns `None` if the server refuses nevertheless.
    pub(crate) fn block(context: Context<'_>) -> Option<Self> {
        // SAFETY: the context is that of a command whose client may be blocked. Waits are timed by
        // the caller, so there is no time-out here.
        let raw = unsafe {
            let raw = api!(RedisModule_BlockClient)(
                context.raw,
                Some(reply::<W>),
                if api!(RedisModule_GetServerVersion)() >= UNBLOCKS_SAFELY {
                    Some(unblocked::<W>)
                } else {
                    None
                },
                Some(free_answer::<W>),
                0,
            );
            if raw.is_null() {
                return None;
            }
            api!(RedisModule_SetDisconnectCallback)(raw, Some(disconnected::<W>));
            raw
        };
        Some(Self {
            raw,
            callbacks: PhantomData,
        })
    }

    /// Passes the answer to the server, which sends it from the event loop.
    pub(crate) fn answer(self, answer: W::Answer) {
        self.end(Box::into_raw(Box::new(answer)).cast());
    }

    fn end(self, answer: *mut c_void) {
        // SAFETY: `self` is the only handle of a client that was not unblocked yet.
        unsafe { api!(RedisModule_UnblockClient)(self.raw, answer) };
    }
}

unsafe extern "C" fn reply<W: BlockedCallbacks>(
    raw: *mut raw::RedisModuleCtx,
    _arguments: *mut *mut raw::RedisModuleString,
    _count: c_int,
) -> c_int {
    guard_logged(OK, || {
        // SAFETY: the context lives for this call, and the server returns what was passed to `answer`
        // until `free_answer`.
        unsafe {
            let answer = api!(RedisModule_GetBlockedClientPrivateData)(raw);
            if let Some(answer) = answer.cast::<W::Answer>().as_ref() {
                W::reply(Context::new(raw), answer);
            }
        }
        OK
    })
}

unsafe extern "C" fn unblocked<W: BlockedCallbacks>(
    raw: *mut raw::RedisModuleCtx,
    _arguments: *mut *mut raw::RedisModuleString,
    _count: c_int,
) -> c_int {
    guard_logged(OK, || {
        // SAFETY: the context lives for this call.
        let context = unsafe { Context::new(raw) };
        if let Some(blocked) = W::unblocked(context) {
            blocked.end(ptr::null_mut());
        }
        OK
    })
}

unsafe extern "C" fn disconnected<W: BlockedCallbacks>(
    raw: *mut raw::RedisModuleCtx,
    _blocked: *mut raw::RedisModuleBlockedClient,
) {
    guard_logged((), || {
        // SAFETY: the context lives for this call.
        let context = unsafe { Context::new(raw) };
        if let Some(blocked) = W::disconnected(context) {
            blocked.end(ptr::null_mut());
        }
    });
}

unsafe extern "C" fn free_answer<W: BlockedCallbacks>(
    _raw: *mut raw::RedisModuleCtx,
    answer: *mut c_void,
) {
    guard_logged((), || {
        if !answer.is_null() {
            // SAFETY: boxed by `answer`, and freed once.
            drop(unsafe { Box::from_raw(answer.cast::<W::Answer>()) });
        }
    });
}
