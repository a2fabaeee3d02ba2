//! The locks on real servers. What each file shows is in its first line.

mod acquiring;
mod bounded;
mod cluster;
mod events;
mod five;
mod given_up;
mod keeping;
mod leaving;
mod losing;
mod lost_replies;
mod many;
mod nested;
mod observing;
#[cfg(feature = "opentelemetry")]
mod otel;
mod processes;
mod quorum;
mod quorum_clocks;
mod quorum_faults;
mod quorum_lost_replies;
mod quorum_waiting;
mod sentinel;
mod short;
mod shutdown;
mod support;
mod trusting;
mod using;
mod waiting;
