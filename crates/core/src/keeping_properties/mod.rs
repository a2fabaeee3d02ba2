//! Properties of kept leases, with random histories: connections that go silent, close and come back,
//! clocks that jump, stalls, times in which nothing may be written, takeovers and shares.

mod calls;
mod iteration;
mod sentences;
mod strategies;
mod tests;
mod world;
