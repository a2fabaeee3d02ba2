//! The module on the nodes of a cluster.

mod support;
mod waiting;
