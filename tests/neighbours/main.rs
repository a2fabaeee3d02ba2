//! Another module on the same server (`neighbour.c`, built here) calls the commands of locks at moments
//! that no client can choose.

mod support;

mod calls;
mod clocks;
mod events;
mod refused;
