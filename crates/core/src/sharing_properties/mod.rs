//! Properties of locks that may be shared, with random histories: holders, limits, leases, cuts by hand,
//! a clock that jumps, calls that wait and leave.

mod key;
mod model;
mod model_errors;
mod sentences;
mod strategies;
mod system;
mod tests;
