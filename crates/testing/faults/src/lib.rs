//! What the runs under faults share: connections that are cut, what the locks guard, and how sums are
//! told in the end.

pub mod proxy;
pub mod register;
pub mod sums;
