//! A thing that clients pass on to each other: a lock, or an item of a list, which is the floor.

use redis::{Cmd, Connection};
use testbed::{Expect, Talk, cmd};

use crate::session::HOUR_MS;
use crate::ways::command;

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
        let owner = client.to_string();
        match self {
            Self::Lock => {
                let words = ["LOCK.ACQUIRE", key, &owner, "BLOCK", "0", "PX"];
                command(&words, &[HOUR_MS])
            }
            Self::Baton => command(&["BLPOP", key], &[0]),
        }
    }

    /// The reply to [`Self::ask`].
    pub(crate) fn got(self, connection: &mut Connection) {
        let reply = connection.receive();
        match self {
            Self::Lock => {
                reply.grant();
            }
            Self::Baton => {
                reply.items();
            }
        }
    }

    /// The call that passes it on.
    pub(crate) fn pass_on(self, key: &str, client: usize) -> Cmd {
        match self {
            Self::Lock => command(&["LOCK.RELEASE", key, &client.to_string()], &[]),
            Self::Baton => command(&["RPUSH", key, "baton"], &[]),
        }
    }
}
