//! The command contract, rule by rule, against a real server (`REDIS_SERVER`).
//!
//! Each module is one part of the contract, each test a rule of it.

mod support;

mod acl;
mod acquire;
mod arguments;
mod calls;
mod config;
mod documentation;
mod effects;
mod effects_permission;
mod errors;
mod events;
mod eviction;
mod info;
mod keyspace;
mod lease;
mod memory;
mod options;
mod pages;
mod precedence;
mod raise;
mod renamed;
mod resp;
mod restore;
mod scripts;
mod tokens;
mod transactions;
