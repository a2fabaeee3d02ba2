//! Distributed locks as native commands of Redis and Valkey.
//!
//! The code is in layers, and each depends only on those below it:
//!
//! * `commands`: the `LOCK.*` commands: arguments in, replies out, and what `COMMAND DOCS` says;
//! * `waiting`: who waits, and the one way in which a lock goes from one owner to the next;
//! * `locks`: locks in the keyspace of a server: the data type, the settings, the token clock, and
//!   the one way in which a change is written, replicated and announced;
//! * `statistics`: what an operator is told: counters, times and the hottest keys;
//! * the crate `redis-lock-core`: the rules of a lock, without a server, a clock or `unsafe`, and what a
//!   call asks for, told from its words;
//! * `server`: the server's module API as safe Rust, the only layer with `unsafe`.
//!
//! The upper three use all lower ones; `statistics` uses the core and `server`, which know nothing of
//! each other.

mod commands;
mod locks;
mod server;
mod statistics;
mod waiting;

use server::Context;

#[cfg(not(feature = "system-allocator"))]
#[global_allocator]
static ALLOCATOR: server::ServerAllocator = server::ServerAllocator;

/// What the server is told: major, minor and patch of the crate's version, two digits each.
const VERSION: i32 = 10_000 * number(env!("CARGO_PKG_VERSION_MAJOR"))
    + 100 * number(env!("CARGO_PKG_VERSION_MINOR"))
    + number(env!("CARGO_PKG_VERSION_PATCH"));

const fn number(digits: &str) -> i32 {
    match i32::from_str_radix(digits, 10) {
        Ok(number) => number,
        Err(_) => panic!("a part of the version is no number"),
    }
}

server::export_load!(c"lock", VERSION, load);

/// Registers everything; the error says why the server should not go on with it.
fn load(context: Context<'_>, has_arguments: bool) -> Result<(), &'static str> {
    if has_arguments {
        return Err(
            "it takes no arguments on its loadmodule line; set lock.* settings in redis.conf \
             instead, such as: lock.default-lease-ms 30000",
        );
    }
    server::set_module_options(context);
    locks::load(context, waiting::lock_lost)?;
    waiting::load(context);
    commands::load(context)
}
