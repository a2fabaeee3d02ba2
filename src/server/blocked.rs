//! Clients that wait for an answer.
//!
//! A blocked client gets exactly one end:
//!
//! * we answer: [`Blocked::answer`] hands the answer over, and from the event loop the server calls
//!   [`Waits::reply`];
//! * the client goes first, or is unblocked with an error: the server calls [`Waits::gone`], also
//!   when an answer is on its way already;
//! * `CLIENT UNBLOCK … TIMEOUT`, where the server does that safely: [`Waits::unblocked`].
//!
//! The server tells a client that waits from one whose answer is on its way only by what we did,
//! and unblocking it twice frees it twice. [`Blocked`] is taken by value where it is answered, and
//! the two callbacks say whether the handle was still there to be given up.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ptr;

use redis_module::raw;

use super::Context;
use super::api::{OK, api};
use super::guard::guard_logged;

/// The first version of the server's API that unblocks a module's client without losing a reply.
const UNBLOCKS_SAFELY: c_int = 0x0007_0400;

/// A client that is blocked for `W`, until it is answered.
pub(crate) struct Blocked<W> {
    raw: *mut raw::RedisModuleBlockedClient,
    waits: PhantomData<fn(W)>,
}

// SAFETY: the handle is only handed back to the server, by whoever holds the server's global lock.
unsafe impl<W> Send for Blocked<W> {}

/// Names a blocked client from the block to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Handle(usize);

/// What a module's client waits for.
pub(crate) trait Waits: Sized + 'static {
    /// What it is told.
    type Answer: Send;

    /// Writes the answer.
    fn reply(context: Context<'_>, answer: &Self::Answer);

    /// The client is gone, or was answered otherwise. Gives the handle back where no answer is on
    /// its way.
    fn gone(context: Context<'_>, handle: Handle) -> Option<Blocked<Self>>;

    /// Writes the reply of `CLIENT UNBLOCK … TIMEOUT`, and gives the handle back.
    fn unblocked(context: Context<'_>, handle: Handle) -> Option<Blocked<Self>>;
}

impl<W: Waits> Blocked<W> {
    /// Blocks the client that is calling; only where its flags say that it may block. None where the
    /// server does not let this client wait all the same, of which the flags do not tell.
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
            api!(RedisModule_SetDisconnectCallback)(raw, Some(gone::<W>));
            raw
        };
        Some(Self {
            raw,
            waits: PhantomData,
        })
    }

    pub(crate) fn handle(&self) -> Handle {
        Handle(self.raw.addr())
    }

    /// Sends the client its answer, from the event loop.
    pub(crate) fn answer(self, answer: W::Answer) {
        self.end(Box::into_raw(Box::new(answer)).cast());
    }

    fn end(self, answer: *mut c_void) {
        // SAFETY: `self` is the only handle of a client that was not unblocked yet.
        unsafe { api!(RedisModule_UnblockClient)(self.raw, answer) };
    }
}

unsafe extern "C" fn reply<W: Waits>(
    raw: *mut raw::RedisModuleCtx,
    _arguments: *mut *mut raw::RedisModuleString,
    _count: c_int,
) -> c_int {
    guard_logged(OK, || {
        // SAFETY: the context lives for this call, and what was handed to `answer` is what the
        // server gives back until `free_answer`.
        unsafe {
            let answer = api!(RedisModule_GetBlockedClientPrivateData)(raw);
            if let Some(answer) = answer.cast::<W::Answer>().as_ref() {
                W::reply(Context::new(raw), answer);
            }
        }
        OK
    })
}

unsafe extern "C" fn unblocked<W: Waits>(
    raw: *mut raw::RedisModuleCtx,
    _arguments: *mut *mut raw::RedisModuleString,
    _count: c_int,
) -> c_int {
    guard_logged(OK, || {
        // SAFETY: the context lives for this call, which belongs to a blocked client of ours.
        let (context, handle) = unsafe {
            let handle = api!(RedisModule_GetBlockedClientHandle)(raw);
            (Context::new(raw), Handle(handle.addr()))
        };
        if let Some(blocked) = W::unblocked(context, handle) {
            blocked.end(ptr::null_mut());
        }
        OK
    })
}

unsafe extern "C" fn gone<W: Waits>(
    raw: *mut raw::RedisModuleCtx,
    blocked: *mut raw::RedisModuleBlockedClient,
) {
    guard_logged((), || {
        // SAFETY: the context lives for this call.
        let context = unsafe { Context::new(raw) };
        if let Some(blocked) = W::gone(context, Handle(blocked.addr())) {
            blocked.end(ptr::null_mut());
        }
    });
}

unsafe extern "C" fn free_answer<W: Waits>(_raw: *mut raw::RedisModuleCtx, answer: *mut c_void) {
    guard_logged((), || {
        if !answer.is_null() {
            // SAFETY: what `answer` boxed, given back once.
            drop(unsafe { Box::from_raw(answer.cast::<W::Answer>()) });
        }
    });
}
