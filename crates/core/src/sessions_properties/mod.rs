//! Sessions against a naive model, over random histories: programs that disconnect and reconnect, takeovers,
//! stalls, pauses, clocks that are set, and changes of locks by hand.

mod calls;
mod iteration;
mod model;
mod order;
mod sentences;
mod strategies;
mod world;
