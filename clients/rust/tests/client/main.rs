//! The locks on real servers, as far as the common trial (crates/testing/trial) does not show it. What each file shows
//! is in its first line.

mod basics;
mod closing;
mod cluster;
mod dropping;
mod faults;
mod features;
#[cfg(feature = "opentelemetry")]
mod otel;
mod quorum;
mod runtimes;
mod stand_in;
mod support;
