//! The contestants.

use super::contestant::{Id, OURS};
use crate::toolchains::Language;

/// The contestants of a language stand together, and take turns one right after the other.
#[rustfmt::skip]
pub(super) const ROWS: [(Id, &str); 19] = [
    (("rust", OURS), "Rust: this project's client"),
    (("rust", "commands"), "Rust, redis-rs: its commands alone"),
    (("rust", "baton"), "Rust, redis-rs: RPUSH + BLPOP, the floor"),
    (("java", OURS), "Java: this project's client on Jedis"),
    (("java", "commands"), "Java, Jedis: its commands alone"),
    (("java", "baton"), "Java, Jedis: RPUSH + BLPOP, the floor"),
    (("java", "rlock"), "Java, Redisson: RLock"),
    (("java", "rfair"), "Java, Redisson: RFairLock"),
    (("python", OURS), "Python: this project's client"),
    (("python", "commands"), "Python, redis-py: its commands alone"),
    (("python", "lock"), "Python, redis-py: Lock"),
    (("python", "aclient"), "Python: this project's client, asyncio"),
    (("python", "acommands"), "Python, redis-py: its commands alone, asyncio"),
    (("go", OURS), "Go: this project's client"),
    (("go", "commands"), "Go, go-redis: its commands alone"),
    (("go", "redsync"), "Go, redsync: Mutex"),
    (("node", OURS), "Node: this project's client"),
    (("node", "commands"), "Node, ioredis: its commands alone"),
    (("node", "redlock"), "Node, redlock: Redlock"),
];

/// The languages whose contenders are programs of their own. Rust's run in this process.
pub(super) const BUILT: [&str; 4] = ["java", "python", "go", "node"];

/// Whether the rows of a language are run: those that were built, and Rust's.
pub(super) fn is_wanted(id: Id, languages: &[(&str, Result<Language, String>)]) -> bool {
    !BUILT.contains(&id.0) || languages.iter().any(|(name, _)| *name == id.0)
}
