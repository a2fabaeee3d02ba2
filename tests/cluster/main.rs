//! The module on the nodes of a cluster.

mod leaving;
mod support;
mod waiting;
