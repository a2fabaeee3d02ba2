//! The locks on real servers, except for what the common trial (crates/testing/trial) shows. The first line of each
//! file says what it shows.

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
