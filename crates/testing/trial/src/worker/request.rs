//! The request to a worker for a lock.

use super::call::Kind;
use super::{Call, LOCKS, Worker};
use crate::failure::Verdict;
use crate::ledger::Grant;
use crate::limits::{AT_ONCE, REPLY};
use serde_json::{Value, json};
use std::time::Duration;

/// With whom a lock is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Exclusive,
    Shared,
    Limit(u32),
}

/// How long a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    None,
    For(Duration),
    ForEver,
}

/// An acquire that is to be sent.
pub(crate) struct Acquire<'w> {
    worker: &'w Worker,
    locks: &'static str,
    key: String,
    mode: Mode,
    wait: Wait,
    lease: u64,
    keep: u64,
    task: Option<&'static str>,
}

impl<'w> Acquire<'w> {
    pub(super) fn new(worker: &'w Worker, key: &str) -> Self {
        Self {
            worker,
            locks: LOCKS,
            key: key.to_owned(),
            mode: Mode::Exclusive,
            wait: Wait::None,
            lease: 2000,
            keep: 5000,
            task: None,
        }
    }

    pub(crate) fn of(mut self, locks: &'static str) -> Self {
        self.locks = locks;
        self
    }

    pub(crate) fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    pub(crate) fn wait(mut self, time: Duration) -> Self {
        self.wait = Wait::For(time);
        self
    }

    pub(crate) fn for_ever(mut self) -> Self {
        self.wait = Wait::ForEver;
        self
    }

    pub(crate) fn lease(mut self, time: Duration) -> Self {
        self.lease = millis(time);
        self
    }

    /// How long the client may be silent.
    pub(crate) fn keep(mut self, time: Duration) -> Self {
        self.keep = millis(time);
        self
    }

    /// The lease is not renewed.
    pub(crate) fn fixed(mut self) -> Self {
        self.keep = 0;
        self
    }

    pub(crate) fn task(mut self, name: &'static str) -> Self {
        self.task = Some(name);
        self
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Sends it.
    pub(crate) fn ask(&self) -> Call {
        self.worker.ask(self)
    }

    /// Sends it, and it must be granted.
    pub(crate) fn granted(&self) -> Verdict<Grant> {
        self.ask().granted()
    }

    /// Sends it, and it must end with an error of this class; gives its text.
    pub(crate) fn refused(&self, class: &str) -> Verdict<String> {
        self.ask().refused(class)
    }

    pub(super) fn limit(&self) -> Option<Duration> {
        match self.wait {
            Wait::None => Some(AT_ONCE),
            Wait::For(time) => Some(time + REPLY),
            Wait::ForEver => None,
        }
    }

    pub(super) fn kind(&self) -> Kind {
        Kind::Acquire {
            locks: self.locks.to_owned(),
            key: self.key.clone(),
        }
    }

    pub(super) fn request(&self) -> Value {
        let mode = match self.mode {
            Mode::Exclusive => json!("exclusive"),
            Mode::Shared => json!("shared"),
            Mode::Limit(limit) => json!({ "limit": limit }),
        };
        let wait = match self.wait {
            Wait::None => 0,
            Wait::For(time) => i64::try_from(time.as_millis()).expect("a short time"),
            Wait::ForEver => -1,
        };
        json!({
            "do": "acquire", "locks": self.locks, "key": self.key, "mode": mode, "wait_ms": wait,
            "lease_ms": self.lease, "keep_ms": self.keep, "task": self.task,
        })
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).expect("a short time")
}
