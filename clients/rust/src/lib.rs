//! Locks of the redis-lock module, for async Rust.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! # let server = testbed::Server::start();
//! # let url = format!("redis://127.0.0.1:{}/", server.port());
//! use redis_lock_client::Client;
//!
//! let client = Client::open(url)?;
//!
//! let guard = client.lock("lock:orders:42").acquire().await?;
//! // … work, and fence each write with the token: see "Losing a lock" …
//! println!("fence with {}", guard.token());
//! guard.release().await?;
//!
//! client.shutdown().await;
//! # Ok::<_, redis_lock_client::Error>(())
//! # }).unwrap();
//! ```
//!
//! - A lock that is not free is waited for in the server's line, first come, first served
//!   ([`Lock::acquire`]), or not at all ([`Lock::try_acquire`]).
//! - A [`Guard`] renews itself every third of its lease, for as long as it lives, and tells at once
//!   when the lock is lost: [`Guard::lost`], [`Guard::cancellation`]. [`Lock::with_lock`] drops
//!   the work then.
//! - It carries the fencing [`token`](Guard::token) of its grant, and tells how long it may be
//!   trusted: [`Guard::valid_for`].
//! - [`Guard::enter`] takes the lock once more within a task that holds it.
//! - Every call can be repeated, and is, when its answer was lost: none counts twice.
//! - A future that is dropped leaves neither a hold nor a place in the line behind.
//! - One server, Sentinel, a cluster, or several independent servers that decide together, with one
//!   token for all: [`Builder`].
//!
//! # Losing a lock
//!
//! A lease ends whether the work is done or not. What a guard can do is to tell, and what the work
//! can do is to stop:
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! # let server = testbed::Server::start();
//! # let url = format!("redis://127.0.0.1:{}/", server.port());
//! use redis_lock_client::{Client, Loss};
//! use std::time::Duration;
//!
//! let client = Client::open(url)?;
//! let lock = client.lock("lock:report").lease(Duration::from_millis(300));
//! let guard = lock.acquire().await?;
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
//! Telling comes too late for a process that was stopped itself. So what is written to has to look at
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
//! use redis_lock_client::{Client, Error, Guard};
//!
//! async fn transfer(account: &Guard) -> Result<(), Error> {
//!     let inner = account.enter().await?;
//!     assert_eq!(inner.token(), account.token());
//!     // …
//!     inner.release().await
//! }
//!
//! let client = Client::open(url)?;
//! let outer = client.lock("lock:account:7").acquire().await?;
//! transfer(&outer).await?;
//! outer.release().await?;
//! # Ok::<_, Error>(())
//! # }).unwrap();
//! ```
//!
//! # Events
//!
//! By `tracing`: `warn` when a lock is lost, a renewal fails or the clocks of a quorum differ, `debug`
//! for what is acquired, renewed, released, repeated and cancelled.
//!
//! # TLS
//!
//! Enable it where the `redis` crate is depended on, for example by its feature `tokio-rustls-comp`;
//! addresses are then `rediss://…`.

mod backend;
mod background;
mod builder;
mod client;
mod error;
mod guard;
mod held;
mod lock;
mod owner;
mod quorum;
mod registry;
mod renewal;
mod server;

pub use builder::Builder;
pub use client::Client;
pub use error::{Error, Loss};
pub use guard::Guard;
pub use lock::Lock;

/// The library that connects: what addresses are made of.
pub use redis;
