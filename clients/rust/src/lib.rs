//! Locks of the redis-lock module, for async Rust.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! # let server = testbed::Server::start();
//! # let url = format!("redis://127.0.0.1:{}/", server.port());
//! use redis_lock_client::Locks;
//!
//! let client = redis::Client::open(url)?;
//! let locks = Locks::new(&client, "shop")?;
//!
//! let guard = locks.lock("lock:orders:42").acquire().await?;
//! // … work, and fence each write with the token: see "Losing a lock" …
//! println!("fence with {}", guard.token());
//! guard.release().await?;
//!
//! locks.close().await;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! - A lock that is not free is told as [`Error::Busy`] at once, or waited for in the server's line, first
//!   come, first served ([`Lock::wait`]).
//! - **The server renews what is held**, as long as this process lives and is heard of. So a runtime that
//!   stands still loses no lock, and when the process dies its locks are free a lease later.
//! - A loss is told at once: [`Guard::lost`], [`Guard::cancellation`]. [`Lock::with_lock`] drops the work
//!   then.
//! - A [`Guard`] carries the fencing [`token`](Guard::token) of its grant.
//! - Read and write locks ([`Locks::shared`]), semaphores ([`Locks::permit`]), several locks under one owner
//!   ([`Locks::task`], [`several`]), leaders ([`Lock::lead`]), work done once ([`Lock::once`]).
//! - Every call can be repeated, and is, when its answer was lost: none counts twice. Every call has a time
//!   limit, and keeps it when the server is down or hangs.
//! - A future that is dropped leaves neither a hold nor a place in the line behind.
//! - One server, Sentinel, a cluster, or several independent servers that decide together, with one
//!   token for all: [`Builder`].
//!
//! # Losing a lock
//!
//! A lock can end before the work is done: the server was gone for longer than a lease, or somebody deleted
//! it. What a guard can do is to tell, and what the work can do is to stop:
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! # let server = testbed::Server::start();
//! # let url = format!("redis://127.0.0.1:{}/", server.port());
//! use redis_lock_client::{Locks, Loss};
//! use std::time::Duration;
//!
//! let locks = Locks::open(url)?;
//! let guard = locks.lock("lock:report").acquire().await?;
//! let work = tokio::time::sleep(Duration::from_secs(60));
//!
//! # testbed::cmd!(server.connection(), "DEL", "lock:report").unwrap(); // an administrator
//! tokio::select! {
//!     () = work => guard.release().await?,
//!     loss = guard.lost() => assert_eq!(loss, Loss::NotHeld),
//! }
//! # Ok::<_, redis_lock_client::Error>(())
//! # }).unwrap();
//! ```
//!
//! Telling comes too late for a process that stood still itself. So what is written to has to look at
//! the token. In SQL, claim the row with it, then read, then write under the claim:
//!
//! ```sql
//! UPDATE orders SET fence = $1 WHERE id = 42 AND fence <= $1;         -- no row: stale, stop
//! SELECT state FROM orders WHERE id = 42;
//! UPDATE orders SET state = 'paid' WHERE id = 42 AND fence = $1;      -- no row: stale, not written
//! ```
//!
//! `docs/fencing.md` of redis-lock says why, and has the other cases: rows that are not there yet,
//! several tables, transactions. In Redis it is `LOCK.FENCE key token` in the script that writes.
//!
//! # Nested use
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! # let server = testbed::Server::start();
//! # let url = format!("redis://127.0.0.1:{}/", server.port());
//! use redis_lock_client::{Error, Guard, Locks};
//!
//! async fn transfer(account: &Guard) -> Result<(), Error> {
//!     let inner = account.enter().await?;
//!     assert_eq!(inner.token(), account.token());
//!     // …
//!     inner.release().await
//! }
//!
//! let locks = Locks::open(url)?;
//! let outer = locks.lock("lock:account:7").acquire().await?;
//! transfer(&outer).await?;
//! outer.release().await?;
//! # Ok::<_, Error>(())
//! # }).unwrap();
//! ```
//!
//! # Events
//!
//! By `tracing`, with the fields `key`, `owner` and `token`: `warn` when a lock is lost, a keeper has closed or
//! the clocks of a quorum differ, `info` when locks are kept again, `debug` for what is acquired, renewed,
//! released, repeated and cancelled. A layer of `tracing-subscriber` counts them, or `tracing-opentelemetry`
//! carries them on.
//!
//! # Metrics
//!
//! An [`Observer`] is told what happens to locks and to the connections that keep them. The feature
//! `opentelemetry` has one that measures, `otel::Metrics`.
//!
//! # TLS
//!
//! The feature `tls-rustls` or `tls-native`; addresses are then `rediss://…`. Certificates are those of the
//! `redis::Client` that [`Locks::new`] is given.

mod backend;
mod background;
mod builder;
mod class;
mod error;
mod guard;
mod held;
mod holder;
mod lock;
mod locks;
mod observer;
#[cfg(feature = "opentelemetry")]
pub mod otel;
mod owner;
mod quorum;
mod registry;
mod request;
mod server;
pub mod several;
mod task;
mod winding;

pub use builder::Builder;
pub use error::{Error, Loss};
pub use guard::Guard;
pub use holder::Holder;
pub use lock::Lock;
pub use locks::Locks;
pub use observer::Observer;
pub use task::Task;

/// The library that connects: what addresses are made of.
pub use redis;
