//! Provokes each fault on real servers. The doctor must find the fault, and the line that it prints must fix it.

mod clusters;
mod failures;
mod login;
mod programs;
mod replicas;
mod rights;
mod sentinels;
mod settings;
mod support;
