//! What these tests share: one key, and calls that wait for it.

use redis::Connection;
use testbed::{Expect, Server, cmd, eventually, post};

/// The key that these tests lock.
pub(crate) const KEY: &str = "foo";
/// Its slot, which the last primary of a new cluster serves.
pub(crate) const SLOT: u16 = 12_182;

/// A call that waits for [`KEY`] for ever, on a node where nobody else does.
#[track_caller]
pub(crate) fn waiter(node: &Server, owner: &str) -> Connection {
    let mut waiter = node.connection();
    post!(waiter, "LOCK.ACQUIRE", KEY, owner, "BLOCK", 0);
    let mut c = node.connection();
    eventually(
        || cmd!(c, "LOCK.WAITERS", KEY).items().len() == 1,
        "the call to wait",
    );
    waiter
}
