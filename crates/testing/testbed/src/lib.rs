//! What tests, benchmarks and fault runs share: real servers on free loopback ports, with the built module
//! loaded, and short ways to speak to them and to read what they answer and store.
//!
//! ```ignore
//! let (server, mut c) = started();
//! let grant = cmd!(c, "LOCK.ACQUIRE", "k", "a", "PX", 500).grant();
//! cmd!(c, "LOCK.RELEASE", "k", "b").refused("NOTOWNER");
//! eventually(|| cmd!(c, "EXISTS", "k").int() == 0, "the lease to end");
//! ```
//!
//! A [`Server`] ends with its guard. Keep none in a `static`: those are never dropped. A [`Cluster`]
//! and [`Sentinels`] are several servers under one guard. Tests in other languages have all this from the
//! program `testbed serve`, and people from `testbed cluster` and `testbed sentinel`.

// Everything here asserts: what is not as it should be is a panic, with the reason.
#![allow(
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::must_use_candidate
)]

pub mod aof;
pub mod child;
pub mod clock;
pub mod cluster;
mod copies;
pub mod dump;
pub mod effect;
mod events;
pub mod module;
mod probe;
mod proxy;
mod replication;
pub mod replies;
mod saving;
pub mod sentinels;
pub mod server;
mod sessions;
pub mod state;
pub mod talk;
pub mod tls;
pub mod traffic;
pub mod users;
mod waiting;

/// The client library, for the macros.
pub use redis;

pub use child::{Child, Signal};
pub use cluster::{Cluster, Failover};
pub use copies::Copies;
pub use effect::effect;
pub use events::Subscriber;
pub use probe::{
    Load, eventually, message_of, patience, server_cpu, timed, within, without_watchdog,
};
pub use proxy::{Cut, Fault, Proxy};
pub use replies::{Grant, LockInfo};
pub use sentinels::Sentinels;
pub use server::{Builder, Kind, Server, Version};
pub use sessions::{Polled, Session, await_renewals, is_blocked, polled, sessions_of};
pub use talk::{
    Expect, Refusal, Reply, Talk, at_once, held, line, post_all, run, started, transaction,
    waiters, words,
};
pub use waiting::{
    Waiter, all_granted, blocked_clients, held_and_waited_for, holders, info, nobody_waits, owner,
    owners, questions, queue, stream, unblocks, wait, wait_as, wait_on, wait_to_share,
    with_threads,
};
