//! Kept leases: the server renews a grant while the connection that keeps it lives.
//!
//! [`KeptGrants`] knows which connection keeps which grants, when each is to be renewed, and when a
//! connection has been silent for too long. It has no clock and knows no keys: the caller tells it what
//! changes, asks what is due, and tells what came of it.
//!
//! **A kept grant** is named by its lock and its token ([`GrantName`]): a lock may have many holders, and
//! each may be kept by another connection.
//!
//! **The connection tells of a loss.** Where a grant is lost, the answer is the client to close. Its
//! connection is then forgotten with all that it kept: the other grants stand, and are renewed no more.
//! What it kept is put away little by little ([`KeptGrants::sweep`]), so that the end of a connection that
//! keeps a hundred thousand grants holds up nobody.
//!
//! **Three orders** tell what is next, each step in O(log n):
//!
//! * when a third of a lease has passed, by the monotonic clock (`renewals.rs`), of all and of the grants of each
//!   lock (`of_lock.rs`);
//! * when a lease ends, by the wall clock (`ends.rs`);
//! * when the silence of a connection can have run out, by a clock that stands still while the server
//!   stalls (`silences.rs`, `hearing.rs`).
//!
//! **Whoever asks what is due gets it once**: [`KeptGrants::take_due`] and [`KeptGrants::take_ended`] put a
//! grant off, so that a caller that does nothing with it loses time, not the grant.

mod calls;
mod connection;
mod ends;
mod grants;
mod hearing;
mod lease;
mod of_lock;
mod registry;
#[cfg(test)]
mod registry_checks;
mod renewals;
mod rules;
mod silence;
mod silences;

pub use calls::{Asked, Keeper};
pub use grants::{GrantName, KeptGrant};
pub use hearing::Now;
pub use registry::KeptGrants;
pub(crate) use rules::can_keep;
pub use rules::check_lease;
pub use silence::{Keep, Silence};
