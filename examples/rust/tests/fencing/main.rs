//! What `docs/fencing.md` says, on `SQLite` and on `PostgreSQL`: what a write behind a token alone lets
//! happen, that the claim prevents it, and what holds in which transaction.

mod orders;
#[path = "../common/postgres.rs"]
mod postgres;
mod seller;
mod session;
mod transactions;
