//! Sessions against a naive model, over random histories: connections that close and come back, takeovers,
//! stalls, pauses, clocks that are set, and changes of locks by hand.

mod calls;
mod iteration;
mod model;
mod order;
mod sentences;
mod strategies;
mod world;
