//! What the integration tests share: real servers on free loopback ports, with the built module
//! loaded, and short ways to speak to them and to read what they answer and store.
//!
//! ```ignore
//! let server = Server::start();
//! let mut c = server.connection();
//! let grant = cmd!(c, "LOCK.ACQUIRE", "k", "a", "PX", 500).grant();
//! cmd!(c, "LOCK.RELEASE", "k", "b").refused("NOTOWNER");
//! eventually(|| cmd!(c, "EXISTS", "k").int() == 0, "the lease to end");
//! ```
//!
//! A [`Server`] ends with its guard. Keep none in a `static`: those are never dropped.

// Each test file compiles all of this as a part of itself, uses what it needs of it, and has nobody
// outside to show it to.
#![allow(dead_code, unused_imports, unused_macros, unreachable_pub)]

pub mod aof;
pub mod dump;
mod module;
mod probe;
mod replication;
pub mod replies;
pub mod server;
pub mod state;
pub mod talk;
pub mod traffic;

pub use probe::{eventually, server_cpu};
pub use replies::{Grant, LockInfo};
pub use server::{Builder, Kind, Server, Version};
pub use talk::{Expect, Refusal, Reply, Talk};
pub(crate) use talk::{cmd, post};
