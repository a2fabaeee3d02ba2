//! The goals of the contests.

use super::contestant::POOL;
use super::{Id, OURS};
use crate::part::Limit::{self, AtLeast, AtMost};

/// A figure of a way in a language, or its ratio to that of another way in the same language.
pub(super) type Wanted = (&'static str, Limit, &'static str, Id, Option<&'static str>);

const GRANTS: &str = "grants/s";
const CPU: &str = "CPU us/grant";
const P99: &str = "p99 us";
const SHARE: &str = "least/most";
const JAVA: Id = ("java", OURS);
const JAVA_COMMANDS: Id = ("java", "commands");
const GO: Id = ("go", OURS);

/// Of one client without contention.
#[rustfmt::skip]
pub(super) const ALONE: &[Wanted] = &[
    ("pairs/s relative to RLock, one Java client", AtLeast(2.0), GRANTS, JAVA, Some("rlock")),
    ("the same, the commands alone", AtLeast(2.0), GRANTS, JAVA_COMMANDS, Some("rlock")),
    ("pairs/s relative to the commands alone, one Go client", AtLeast(0.9), GRANTS, GO, Some("commands")),
    ("pairs/s relative to redsync, one Go client", AtLeast(1.0), GRANTS, GO, Some("redsync")),
];

/// Of 64 contenders for 64 locks.
#[rustfmt::skip]
pub(super) const APART: &[Wanted] = &[
    ("pairs/s relative to the commands alone, 64 goroutines and 64 locks", AtLeast(0.9), GRANTS, GO, Some("commands")),
];

/// Of 64 contenders for one lock.
#[rustfmt::skip]
pub(super) const MANY: &[Wanted] = &[
    ("grants/s relative to RLock, 64 Java contenders", AtLeast(4.0), GRANTS, JAVA, Some("rlock")),
    ("the same, the commands alone", AtLeast(4.0), GRANTS, JAVA_COMMANDS, Some("rlock")),
    ("grants/s relative to RFairLock", AtLeast(9.0), GRANTS, JAVA, Some("rfair")),
    ("the same, the commands alone", AtLeast(9.0), GRANTS, JAVA_COMMANDS, Some("rfair")),
    ("grants/s of the commands alone relative to the floor", AtLeast(0.95), GRANTS, JAVA_COMMANDS, Some("baton")),
    ("server CPU per grant relative to RLock", AtMost(1.0 / 3.0), CPU, JAVA, Some("rlock")),
    ("the same, the commands alone", AtMost(1.0 / 3.0), CPU, JAVA_COMMANDS, Some("rlock")),
    ("server CPU per grant relative to RFairLock", AtMost(1.0 / 9.0), CPU, JAVA, Some("rfair")),
    ("the same, the commands alone", AtMost(1.0 / 9.0), CPU, JAVA_COMMANDS, Some("rfair")),
    ("p99 of a hand-off relative to RLock", AtMost(0.2), P99, JAVA, Some("rlock")),
    ("the same, the commands alone", AtMost(0.2), P99, JAVA_COMMANDS, Some("rlock")),
    ("grants/s relative to the commands alone, 64 goroutines and one lock", AtLeast(0.75), GRANTS, GO, Some("commands")),
    ("grants/s relative to redsync", AtLeast(1.0), GRANTS, GO, Some("redsync")),
    ("least/most grants, 64 Java contenders", AtLeast(0.97), SHARE, JAVA, None),
    ("least/most grants, 64 goroutines", AtLeast(0.95), SHARE, GO, None),
];

/// Of very many tasks of one process.
#[rustfmt::skip]
pub(super) const TASKS: &[Wanted] = &[
    ("connections of 1000 waiting goroutines relative to the pool plus one", AtMost(1.0), POOL, GO, None),
];

/// Of readers, writers and permits, beside those of Redisson.
#[rustfmt::skip]
pub(super) const THREADS: &[Wanted] = &[
    ("grants/s relative to RReadWriteLock, 6 of 64 threads write", AtLeast(4.0), GRANTS, ("java", "commands-threads"), Some("redisson-threads")),
    ("server CPU per grant relative to it", AtMost(1.0 / 3.0), CPU, ("java", "commands-threads"), Some("redisson-threads")),
];
#[rustfmt::skip]
pub(super) const CALLS: &[Wanted] = &[
    ("grants/s relative to RReadWriteLock, every tenth call writes", AtLeast(4.0), GRANTS, ("java", "commands-calls"), Some("redisson-calls")),
    ("server CPU per grant relative to it", AtMost(1.0 / 3.0), CPU, ("java", "commands-calls"), Some("redisson-calls")),
];
#[rustfmt::skip]
pub(super) const PERMITS: &[Wanted] = &[
    ("grants/s relative to RPermitExpirableSemaphore, 8 permits", AtLeast(4.0), GRANTS, ("java", "commands-permits"), Some("redisson-permits")),
    ("server CPU per grant relative to it", AtMost(1.0 / 3.0), CPU, ("java", "commands-permits"), Some("redisson-permits")),
];
