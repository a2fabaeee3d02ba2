//! The module on the nodes of a cluster.

mod addresses;
mod atomic;
mod idle;
mod leaving;
mod queued;
mod redirects;
mod sessions;
mod sharing;
mod support;
mod waiting;
