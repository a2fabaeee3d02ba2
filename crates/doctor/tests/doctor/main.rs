//! Each fault, provoked on real servers: it is found, its line is typed, and it is gone.

mod failures;
mod groups;
mod programs;
mod settings;
mod support;
mod users;
