//! Sessions: a program's presence on the server.
//!
//! [`Sessions`] knows which sessions are open, which connection polls each of them, and which grants belong to them. It
//! knows when each grant must be renewed and when its lease ends, and which events are not acknowledged. It has no
//! clock and opens no keys: the caller passes the time, reports the changes of locks, and asks which grants, sessions
//! and POLLs are due.
//!
//! **A grant** is identified by its lock and its token ([`GrantName`]). A lock may have many holders, each in a
//! different session or in none.
//!
//! **Orders.** Each session keeps its grants in two orders: by the time of the next renewal (monotonic clock), and by
//! the end of the lease (wall clock). A new grant is in neither (`unfiled.rs`). Four orders of sessions (`orders.rs`)
//! give the next renewal, the next end of a lease, the next timeout and the next POLL to answer on the whole server. A
//! session that is detached or ends leaves these orders in O(log n), however many grants it has.
//!
//! **Ends in slices.** A session that ends is unknown immediately, but its grants are removed in slices:
//! [`Sessions::take_to_release`] after CLOSE and KILL, [`Sessions::sweep`] after a silence.
//!
//! **Flushes in slices.** [`Sessions::flushed`] only records which grants are lost, and [`Sessions::report_flushed`]
//! reports them.
//!
//! **No long pauses.** The tables grow in parts (`shards.rs` of the crate), and no call costs more than O(log n), plus
//! the cost of what it returns.

#[cfg(test)]
mod checks;
mod clock;
mod event;
mod flushes;
mod grant_changes;
mod grants;
mod lock_grants;
mod orders;
mod polls;
mod presence;
mod registry;
mod renewals;
mod session;
mod unfiled;

pub use clock::Now;
pub use event::{Event, EventKind, LossReason};
pub use grants::{GrantName, SessionGrant};
pub use polls::{Block, PollRefusal, PollReply, Polled};
pub use presence::{Closed, Presence, Timeout};
pub use registry::{Counts, GrantPlace, Opening, SessionInfo, Sessions};
pub use renewals::can_renew;
pub use session::{SessionId, SessionTimeout};
