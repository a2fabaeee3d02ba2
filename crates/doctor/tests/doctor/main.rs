//! Provokes each fault on real servers. The doctor must find the fault, and the line that it prints must fix it.

mod failures;
mod groups;
mod programs;
mod settings;
mod support;
mod users;
