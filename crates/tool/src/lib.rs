//! The code that the programs for operators share: the options that name a server, connections, replies, the programs that
//! use the server, and text for a terminal.

mod link;
mod options;
mod programs;
mod replies;
pub mod words;

pub use link::{Answer, Link, Target};
pub use options::{ServerOptions, prepare_tls};
pub use programs::{
    Program, ProgramGrant, State, Waiter, command, grants, on, programs, waiters, waiters_of,
};
pub use replies::{ClusterNode, Names, Reply, bytes, cluster_nodes, items, lines, number, text};
