//! What the runs under faults share: connections that are cut, and what the locks guard.

pub mod proxy;
pub mod register;
