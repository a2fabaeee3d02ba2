//! Locks of the redis-lock module, for async Rust.

mod acquire;
mod background;
mod builder;
mod core;
mod error;
mod guard;
mod hold;
mod lock;
mod locks;
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
