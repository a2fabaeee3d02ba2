//! Code that the programs for operators share: options for a server, connections, replies, the programs that use the
//! server, text for a terminal, and output.

// Only programs of this repository use this crate, and each error is a text that says what failed.
#![allow(clippy::missing_errors_doc, clippy::must_use_candidate)]

mod link;
mod options;
mod output;
mod programs;
mod replies;
pub mod words;

pub use link::{Answer, Link, Target};
pub use options::ServerOptions;
pub use output::{end, json};
pub use programs::{Program, ProgramGrant, State, Waiter, command, on, waiters_of};
pub use redis::Value;
pub use replies::{
    ClusterNode, Names, Reply, bytes, cluster_nodes, items, lines, names, number, pairs,
    server_version, text,
};
