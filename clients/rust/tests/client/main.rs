//! The locks on real servers. What each file shows is in its first line.

mod acquiring;
mod cluster;
mod events;
mod five;
mod leaving;
mod losing;
mod lost_replies;
mod nested;
mod processes;
mod quorum;
mod quorum_clocks;
mod quorum_faults;
mod quorum_lost_replies;
mod quorum_waiting;
mod renewing;
mod sentinel;
mod shutdown;
mod support;
mod trusting;
mod waiting;
