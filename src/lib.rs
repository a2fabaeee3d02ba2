//! Distributed locks as native commands of Redis and Valkey.
//!
//! Each module here is a layer. `docs/design.md` says what each is for and which others it uses.

mod commands;
mod locks;
mod server;
mod sessions;
mod statistics;
mod waiting;

use server::Context;

#[cfg(not(feature = "system-allocator"))]
#[global_allocator]
static ALLOCATOR: server::ServerAllocator = server::ServerAllocator;

/// The version that the server shows: major, minor and patch version of the crate, with two digits each.
const VERSION: i32 = 10_000 * number(env!("CARGO_PKG_VERSION_MAJOR"))
    + 100 * number(env!("CARGO_PKG_VERSION_MINOR"))
    + number(env!("CARGO_PKG_VERSION_PATCH"));

const fn number(digits: &str) -> i32 {
    match i32::from_str_radix(digits, 10) {
        Ok(number) => number,
        Err(_) => panic!("a part of the version is not a number"),
    }
}

server::export_load!(c"lock", VERSION, load);

/// Tells the layers that a lock was lost without a release.
fn lock_lost(context: Context<'_>, database: i32, key: &[u8]) {
    sessions::lock_lost(context, database, key);
    waiting::lock_lost(context, database, key);
}

/// Loads the module. The error says why it cannot be loaded.
fn load(context: Context<'_>, has_arguments: bool) -> Result<(), &'static str> {
    if has_arguments {
        return Err(
            "it takes no arguments on its loadmodule line; set lock.* settings in redis.conf \
             instead, such as: lock.default-lease-ms 30000",
        );
    }
    server::set_module_options(context);
    locks::load(context, lock_lost)?;
    sessions::load(
        context,
        sessions::Upper {
            release: waiting::release_of_session,
            ended: waiting::session_ended,
            presence_changed: waiting::session_presence_changed,
            renewed: waiting::grant_renewed,
        },
    );
    waiting::load(context);
    commands::load(context)
}
