//! Kept leases, sentence by sentence, against a real server (`REDIS_SERVER`).
//!
//! Each module is one part of what the contract says of `KEEP`, each test a sentence of it.

mod support;

mod arguments;
mod by_hand;
mod clocks;
mod closing;
mod held_up;
mod look;
mod lost;
mod many;
mod nodes;
mod own_end;
mod passing;
mod promise;
mod protocols;
mod quiet;
mod renewing;
mod shares;
mod silence;
mod stalls;
mod waiting;
