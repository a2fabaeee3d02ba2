//! Everything that a server stores, to be compared with what another server stores, or the same
//! one after a restart.

use super::talk::{Expect, Talk};
use super::{LockInfo, Server};
use crate::cmd;
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// A database's number and a key's name.
pub type Place = (i64, Vec<u8>);

/// The content of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// `DEBUG DIGEST-VALUE`
    pub digest: String,
    /// When it expires, in milliseconds since 1970; -1 for never.
    pub deadline: i64,
    /// Owner, token, holds and lease, where it is a lock.
    pub lock: Option<(Vec<u8>, i64, i64, i64)>,
}

impl Stored {
    /// It does not expire within ten seconds from now.
    fn lasts(&self) -> bool {
        self.deadline == -1 || self.deadline > unix_ms() + 10_000
    }
}

/// Keys and what they hold.
pub type State = BTreeMap<Place, Stored>;

/// Milliseconds since 1970.
pub fn unix_ms() -> i64 {
    unix_micros() / 1000
}

/// Microseconds since 1970: what a token starts from.
pub fn unix_micros() -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    i64::try_from(now.as_micros()).expect("a time that fits")
}

/// When a key expires, in milliseconds since 1970; -1 for never, -2 for no key.
#[track_caller]
pub fn deadline(c: &mut impl Talk, key: &str) -> i64 {
    cmd!(*c, "PEXPIRETIME", key).int()
}

impl Server {
    /// All keys of all databases, but for those that expire within ten seconds: whether those are
    /// there or not depends on the moment.
    #[track_caller]
    pub fn state(&self) -> State {
        let mut state = self.whole_state();
        state.retain(|_, stored| stored.lasts());
        state
    }

    /// All keys of all databases.
    #[track_caller]
    pub fn whole_state(&self) -> State {
        let mut c = self.connection();
        let mut state = State::new();
        for database in self.databases() {
            cmd!(c, "SELECT", database).okay();
            for key in cmd!(c, "KEYS", "*").items() {
                let key = key.bytes();
                if let Some(stored) = stored(&mut c, &key) {
                    state.insert((database, key), stored);
                }
            }
        }
        state
    }

    /// The numbers of the databases that hold keys.
    #[track_caller]
    pub fn databases(&self) -> Vec<i64> {
        let sections = self.info("keyspace");
        let number = |name: &String| name.strip_prefix("db")?.parse().ok();
        let mut numbers: Vec<_> = sections.keys().filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// `lock_last_token` of `INFO`: the highest fencing token that the server has seen.
    #[track_caller]
    pub fn last_token(&self) -> i64 {
        self.count("last_token")
    }

    /// Takes and frees a lock of its own; the token of that grant.
    #[track_caller]
    pub fn next_token(&self) -> i64 {
        let mut c = self.connection();
        let token = cmd!(c, "LOCK.ACQUIRE", "next token", "o").grant().token;
        cmd!(c, "LOCK.RELEASE", "next token", "o").int();
        token
    }
}

/// The content of the key; none if it has expired in between.
fn stored(c: &mut impl Talk, key: &[u8]) -> Option<Stored> {
    let digest = cmd!(*c, "DEBUG", "DIGEST-VALUE", key).items().remove(0);
    let deadline = cmd!(*c, "PEXPIRETIME", key).int();
    let kind = cmd!(*c, "TYPE", key).text();
    let lock = match kind.as_str() {
        "RedisLock" => {
            // None when every share has ended: the key may be there all the same.
            let info = LockInfo::try_from(cmd!(*c, "LOCK.INFO", key).value()).ok();
            info.map(|info| (info.owner, info.token, info.holds, info.lease_ms))
        }
        _ => None,
    };
    (deadline != -2 && kind != "none").then(|| Stored {
        digest: digest.text(),
        deadline,
        lock,
    })
}

/// Demands that two states are the same, but for what expires soon, and shows the keys that differ.
#[track_caller]
pub fn assert_same(before: &State, after: &State, what: &str) {
    let lasting = |stored: Option<&Stored>| stored.is_some_and(Stored::lasts);
    // Which of several holders is the first depends on the moment. The digest has all of them.
    let lasts = |stored: &&Stored| (stored.digest.clone(), stored.deadline);
    let differs = |place: &&Place| {
        let (before, after) = (before.get(*place), after.get(*place));
        let is_same = before.as_ref().map(lasts) == after.as_ref().map(lasts);
        !is_same && (lasting(before) || lasting(after))
    };
    let places = before.keys().chain(after.keys());
    let differences: BTreeMap<_, _> = places
        .filter(differs)
        .map(|place| (place, (before.get(place), after.get(place))))
        .collect();
    assert!(differences.is_empty(), "{what}: {differences:#?}");
}
