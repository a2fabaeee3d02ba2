//! Each fault, provoked on real servers: it is found, its line is typed, and it is gone.

mod clusters;
mod failures;
mod login;
mod programs;
mod replicas;
mod rights;
mod sentinels;
mod settings;
mod support;
