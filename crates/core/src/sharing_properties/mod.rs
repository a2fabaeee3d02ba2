//! Properties of locks that may be shared, with random histories: holders, limits, leases, cuts by hand,
//! a clock that jumps, calls that wait and leave.

mod model;
mod sentences;
mod strategies;
mod system;
mod tests;
