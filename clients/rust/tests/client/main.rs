//! The locks on real servers. What each file shows is in its first line.

mod basics;
mod closing;
mod cluster;
mod dropping;
mod faults;
mod features;
#[cfg(feature = "opentelemetry")]
mod otel;
mod outages;
mod quorum;
mod quorum_faults;
mod runtimes;
mod stand_in;
mod support;
