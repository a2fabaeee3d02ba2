//! The ways of locking that are compared, each as a pair of commands.

use redis::{Cmd, Connection, Script, Value};
use testbed::{Expect, cmd};

/// An owner as clients generate it: a UUID.
pub(crate) const OWNER: &str = "2a9f7c1e-5b60-4d38-9e1f-7c06d3a5b8e4";
pub(crate) const LEASE_MS: u32 = 30_000;

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

/// A way of locking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Module,
    ModuleDefaultLease,
    ModuleNewOwner,
    SetDel,
    SetScript,
    SetDelifeq,
    HashScripts,
    Ping,
}

impl Way {
    pub(crate) const ALL: [Self; 8] = [
        Self::SetDel,
        Self::Module,
        Self::ModuleDefaultLease,
        Self::ModuleNewOwner,
        Self::SetScript,
        Self::SetDelifeq,
        Self::HashScripts,
        Self::Ping,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Module => "LOCK.ACQUIRE PX + LOCK.RELEASE",
            Self::ModuleDefaultLease => "LOCK.ACQUIRE + LOCK.RELEASE",
            Self::ModuleNewOwner => "LOCK.ACQUIRE * + DEL",
            Self::SetDel => "SET NX PX + DEL (unsafe)",
            Self::SetScript => "SET NX PX + EVALSHA compare-and-delete",
            Self::SetDelifeq => "SET NX PX + DELIFEQ",
            Self::HashScripts => "re-entrant hash lock, EVALSHA + EVALSHA",
            Self::Ping => "PING + PING",
        }
    }

    pub(crate) fn is_ours(self) -> bool {
        matches!(
            self,
            Self::Module | Self::ModuleDefaultLease | Self::ModuleNewOwner
        )
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
        let set = || command(&["SET", key, OWNER, "NX", "PX"], &[LEASE_MS]);
        let release = || command(&["LOCK.RELEASE", key, OWNER], &[]);
        let del = || command(&["DEL", key], &[]);
        match self {
            Self::Module => {
                let acquire = command(&["LOCK.ACQUIRE", key, OWNER, "PX"], &[LEASE_MS]);
                [acquire, release()]
            }
            Self::ModuleDefaultLease => [command(&["LOCK.ACQUIRE", key, OWNER], &[]), release()],
            Self::ModuleNewOwner => [command(&["LOCK.ACQUIRE", key, "*"], &[]), del()],
            Self::SetDel => [set(), del()],
            Self::SetScript => {
                let hash = Script::new(COMPARE_AND_DELETE).get_hash().to_owned();
                [set(), command(&["EVALSHA", &hash, "1", key, OWNER], &[])]
            }
            Self::SetDelifeq => [set(), command(&["DELIFEQ", key, OWNER], &[])],
            Self::HashScripts => {
                let acquire = Script::new(HASH_ACQUIRE).get_hash().to_owned();
                let release = Script::new(HASH_RELEASE).get_hash().to_owned();
                let channel = format!("{key}:free");
                [
                    command(&["EVALSHA", &acquire, "1", key, OWNER], &[LEASE_MS]),
                    command(
                        &["EVALSHA", &release, "2", key, &channel, OWNER],
                        &[LEASE_MS],
                    ),
                ]
            }
            Self::Ping => [command(&["PING"], &[]), command(&["PING"], &[])],
        }
    }
}

/// A command of words and numbers.
pub(crate) fn command(words: &[&str], numbers: &[u32]) -> Cmd {
    let mut command = Cmd::new();
    command.arg(words).arg(numbers);
    command
}
