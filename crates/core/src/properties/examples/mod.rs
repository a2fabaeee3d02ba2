//! Sentences of the contract, each by an example.

mod giving_back;
mod locks;
mod passed_over;
mod script;
mod sharing;
mod waiting;
