//! Locks of the Redis module redis-lock, for async Rust.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! # let server = testbed::Server::start();
//! # let url = format!("redis://127.0.0.1:{}/", server.port());
//! use redis_lock_client::Locks;
//!
//! let client = redis::Client::open(url)?;
//! let locks = Locks::new(&client, "orders");
//!
//! let guard = locks.lock("lock:orders:42").acquire().await?;
//! println!("fence writes with {}", guard.token());
//! guard.release().await?;
//!
//! locks.close().await?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! The server renews a lock for as long as the process polls its session, over one connection for each process and
//! server. No timer of this crate renews anything, and a process that is suspended for some seconds keeps its locks. When
//! the process dies, its locks are free a lease later (10 seconds, unless [`Builder::lease`] says otherwise).
//!
//! Waiting callers queue on the server, first come, first served. Their number is not limited by connections. Dropping
//! the future of an acquire gives the wait up.
//!
//! Keys are bytes, at most 8,192 with the [prefix](Builder::prefix). Times are a [`Duration`](std::time::Duration), which
//! the server takes in whole milliseconds, rounded up.
//!
//! Each call to the server is limited to a second ([`Builder::reply_time`]), and repeated where its reply was lost. A
//! repeated call never counts twice.
//!
//! # Losing a lock
//!
//! A lock can end before the work is done: the server was gone for longer than a lease, or an operator deleted it. Then
//! the program is notified immediately ([`Guard::lost`], [`Guard::cancellation`]), and [`Lock::with`] drops the work:
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! # let server = redis_lock_client::testing::StandIn::new();
//! # let locks = server.locks();
//! let guard = locks.lock("lock:report").acquire().await?;
//! let work = tokio::time::sleep(std::time::Duration::from_secs(60));
//!
//! # server.lose("lock:report");
//! tokio::select! {
//!     () = work => guard.release().await?,
//!     loss = guard.lost() => println!("{loss}"), // hold lock:report: the lock was lost: deleted
//! }
//! # Ok::<_, redis_lock_client::Error>(())
//! # }).unwrap();
//! ```
//!
//! No client can promise that the lock is still held when a write arrives, because the process may have been suspended in
//! between. Give the token to what you write to: `docs/fencing.md` of redis-lock.
//!
//! # Runtimes
//!
//! Sessions are polled by a thread of this crate, so a runtime that is blocked loses no lock. Calls run on the runtime of
//! their caller, on a connection of that runtime, and go on in the background when they are dropped. Any number of
//! runtimes can use the same [`Locks`].
//!
//! # TLS
//!
//! The feature `tls-rustls` or `tls-native`; addresses are then `rediss://…`. Certificates are those of the
//! `redis::Client` that [`Locks::new`] is given.

mod acquire;
mod background;
mod builder;
mod core;
mod error;
mod guard;
mod hold;
mod lock;
mod locks;
mod mutex;
mod observer;
#[cfg(feature = "opentelemetry")]
pub mod otel;
mod pauses;
pub mod quorum;
mod server;
mod session;
pub mod several;
mod state;
mod task;
pub mod testing;

pub use builder::Builder;
pub use error::{Error, ErrorKind};
pub use guard::Guard;
pub use lock::Lock;
pub use locks::Locks;
pub use observer::Observer;
pub use quorum::Quorum;
pub use task::Task;

/// The library that connects: what addresses are made of.
pub use redis;
