//! The example programs of a language, as several processes on a real server: those in Rust, or those
//! that `EXAMPLE_PROGRAM` starts. See `examples/README.md`.

mod database;
mod fence;
mod job;
#[path = "../common/postgres.rs"]
mod postgres;
mod program;
mod seat;
mod stock;
