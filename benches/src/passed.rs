//! A thing that clients pass on to each other: a lock, or an item of a list, which is the floor.

use redis::{Cmd, Connection};
use testbed::{Expect, cmd};

use crate::session::HOUR_MS;
use crate::ways::call;

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Passed {
    Lock,
    Baton,
}

impl Passed {
    /// Lets it be free: the first client that asks gets it.
    pub(crate) fn free(self, connection: &mut Connection, key: &str) {
        cmd!(*connection, "DEL", key).int();
        if self == Self::Baton {
            cmd!(*connection, "RPUSH", key, "baton").int();
        }
    }

    /// The call that waits until it is this client's.
    pub(crate) fn ask(self, key: &str, client: usize) -> Cmd {
        match self {
            Self::Lock => call!("LOCK.ACQUIRE {key} {client} BLOCK 0 PX {HOUR_MS}"),
            Self::Baton => call!("BLPOP {key} 0"),
        }
    }

    /// The call that passes it on.
    pub(crate) fn pass_on(self, key: &str, client: usize) -> Cmd {
        match self {
            Self::Lock => call!("LOCK.RELEASE {key} {client}"),
            Self::Baton => call!("RPUSH {key} baton"),
        }
    }
}
