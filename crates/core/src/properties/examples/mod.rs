//! Examples for the sentences of the contract.

mod giving_back;
mod locks;
mod passed_over;
mod script;
mod sharing;
mod waiting;
