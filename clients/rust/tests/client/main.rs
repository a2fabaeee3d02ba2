//! The locks on real servers. What each file shows is in its first line.

mod acquiring;
mod bounded;
mod cluster;
mod coming_back;
mod counted;
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
mod others;
mod processes;
mod quorum;
mod quorum_clocks;
mod quorum_faults;
mod quorum_lost_replies;
mod quorum_order;
mod quorum_using;
mod quorum_waiting;
mod sentinel;
mod short;
mod shutdown;
mod support;
mod trusting;
mod two_processes;
mod using;
mod waiting;
