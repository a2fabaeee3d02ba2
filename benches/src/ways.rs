//! The ways of locking that are compared, each as a pair of commands; and what clients pass on to each other.

use redis::{Cmd, Connection, Script, Value};
use testbed::{Expect, cmd};

use crate::session::HOUR_MS;

/// A command, written as one line of words and of what is in braces.
macro_rules! call {
    ($($words:tt)*) => {
        testbed::line(&format!($($words)*))
    };
}
pub(crate) use call;

/// An owner as clients generate it: a UUID.
pub(crate) const OWNER: &str = "2a9f7c1e-5b60-4d38-9e1f-7c06d3a5b8e4";
pub(crate) const LEASE_MS: u32 = 30_000;

/// One of many owners, whose names are as long as [`OWNER`].
pub(crate) fn owner(number: usize) -> String {
    format!("{}{number:08}", &OWNER[..OWNER.len() - 8])
}

/// Deletes the key if it holds the caller's value.
const COMPARE_AND_DELETE: &str = "\
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
    return redis.call('DEL', KEYS[1])
end
return 0";

/// A re-entrant lock of client libraries: a hash with one field, named after the owner, with the hold count.
/// Returns 0 when it is acquired, else its TTL.
const HASH_ACQUIRE: &str = "\
local lock, owner, lease = KEYS[1], ARGV[1], ARGV[2]
local is_free = redis.call('EXISTS', lock) == 0
if is_free or redis.call('HEXISTS', lock, owner) == 1 then
    redis.call('HINCRBY', lock, owner, 1)
    redis.call('PEXPIRE', lock, lease)
    return 0
end
return redis.call('PTTL', lock)";

/// Its release. The last one deletes the hash and publishes a message for those who wait.
const HASH_RELEASE: &str = "\
local lock, channel, owner, lease = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
if redis.call('HEXISTS', lock, owner) == 0 then
    return -1
end
local holds = redis.call('HINCRBY', lock, owner, -1)
if holds > 0 then
    redis.call('PEXPIRE', lock, lease)
else
    redis.call('DEL', lock)
    redis.call('PUBLISH', channel, 'free')
end
return holds";

/// A way of locking; they are numbered in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    SetDel,
    Module,
    ModuleDefaultLease,
    ModuleNewOwner,
    SetScript,
    SetDelifeq,
    HashScripts,
    Ping,
}

/// The ways, with their names.
const NAMES: [(Way, &str); 8] = [
    (Way::SetDel, "SET NX PX + DEL (unsafe)"),
    (Way::Module, "LOCK.ACQUIRE PX + LOCK.RELEASE"),
    (Way::ModuleDefaultLease, "LOCK.ACQUIRE + LOCK.RELEASE"),
    (Way::ModuleNewOwner, "LOCK.ACQUIRE * + DEL"),
    (Way::SetScript, "SET NX PX + EVALSHA compare-and-delete"),
    (Way::SetDelifeq, "SET NX PX + DELIFEQ"),
    (Way::HashScripts, "re-entrant hash lock, EVALSHA + EVALSHA"),
    (Way::Ping, "PING + PING"),
];

impl Way {
    pub(crate) fn all() -> [Self; NAMES.len()] {
        NAMES.map(|(way, _)| way)
    }

    pub(crate) fn name(self) -> &'static str {
        NAMES[self as usize].1
    }

    /// Loads its scripts; the error says why it does not work on this server.
    pub(crate) fn prepare(self, connection: &mut Connection) -> Result<(), String> {
        let scripts: &[&str] = match self {
            Self::SetScript => &[COMPARE_AND_DELETE],
            Self::HashScripts => &[HASH_ACQUIRE, HASH_RELEASE],
            _ => &[],
        };
        for script in scripts {
            cmd!(*connection, "SCRIPT", "LOAD", script).value();
        }
        let known = cmd!(*connection, "COMMAND", "INFO", "DELIFEQ").items();
        if self == Self::SetDelifeq && known == [Value::Nil] {
            return Err("the server has no DELIFEQ".to_owned());
        }
        Ok(())
    }

    /// The commands to acquire and to release the lock.
    pub(crate) fn pair(self, key: &str) -> [Cmd; 2] {
        let set = || call!("SET {key} {OWNER} NX PX {LEASE_MS}");
        let release = || call!("LOCK.RELEASE {key} {OWNER}");
        let hash = |script| Script::new(script).get_hash().to_owned();
        match self {
            Self::Module => [call!("LOCK.ACQUIRE {key} {OWNER} PX {LEASE_MS}"), release()],
            Self::ModuleDefaultLease => [call!("LOCK.ACQUIRE {key} {OWNER}"), release()],
            Self::ModuleNewOwner => [call!("LOCK.ACQUIRE {key} *"), call!("DEL {key}")],
            Self::SetDel => [set(), call!("DEL {key}")],
            Self::SetScript => {
                let hash = hash(COMPARE_AND_DELETE);
                [set(), call!("EVALSHA {hash} 1 {key} {OWNER}")]
            }
            Self::SetDelifeq => [set(), call!("DELIFEQ {key} {OWNER}")],
            Self::HashScripts => {
                let [acquire, release] = [HASH_ACQUIRE, HASH_RELEASE].map(hash);
                [
                    call!("EVALSHA {acquire} 1 {key} {OWNER} {LEASE_MS}"),
                    call!("EVALSHA {release} 2 {key} {key}:free {OWNER} {LEASE_MS}"),
                ]
            }
            Self::Ping => [call!("PING"), call!("PING")],
        }
    }
}

/// A thing that clients pass on to each other: a lock, or an item of a list, which is the floor.
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
