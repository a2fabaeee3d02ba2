//! What has happened in the storm, and what must never happen.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use testbed::Grant;

/// Every kind of event; each must have happened for a run to mean anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    NewGrant,
    HandOff,
    ReEntry,
    Busy,
    TimeOut,
    CalledOff,
    WrongType,
    PartialRelease,
    LastRelease,
    RefusedRelease,
    Renewal,
    Close,
    CloseWhileWaiting,
    Kill,
    KillWhileWaiting,
    Unblock,
    Expiry,
    Del,
    Overwrite,
    Flush,
    Pause,
    Comparison,
}

impl Event {
    pub(crate) const ALL: [Self; 22] = [
        Self::NewGrant,
        Self::HandOff,
        Self::ReEntry,
        Self::Busy,
        Self::TimeOut,
        Self::CalledOff,
        Self::WrongType,
        Self::PartialRelease,
        Self::LastRelease,
        Self::RefusedRelease,
        Self::Renewal,
        Self::Close,
        Self::CloseWhileWaiting,
        Self::Kill,
        Self::KillWhileWaiting,
        Self::Unblock,
        Self::Expiry,
        Self::Del,
        Self::Overwrite,
        Self::Flush,
        Self::Pause,
        Self::Comparison,
    ];
}

/// Shared by all clients of the storm.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<Book>);

#[derive(Default)]
struct Book {
    counts: BTreeMap<Event, u64>,
    /// Whose each grant is, and of what.
    grants: HashMap<i64, (String, Vec<u8>)>,
    /// The highest token of each key that any client was told of.
    highest: HashMap<String, i64>,
    violations: Vec<String>,
}

impl Ledger {
    pub(crate) fn count(&self, event: Event) {
        self.add(event, 1);
    }

    pub(crate) fn add(&self, event: Event, times: u64) {
        *self.book().counts.entry(event).or_default() += times;
    }

    /// The highest token of a key that was told of until now.
    pub(crate) fn highest(&self, key: &str) -> i64 {
        self.book().highest.get(key).copied().unwrap_or(0)
    }

    /// A client was told of a grant by a call that it made when `before` was the highest token.
    /// True where nobody had been told of that grant.
    pub(crate) fn grant(&self, key: &str, before: i64, grant: &Grant) -> bool {
        let mut book = self.book();
        if grant.token < before {
            let what = format!("{key}: {grant:?} was made after {before} was known");
            book.violations.push(what);
        }
        let highest = book.highest.entry(key.to_owned()).or_default();
        *highest = grant.token.max(*highest);
        let of = (key.to_owned(), grant.owner.clone());
        match book.grants.get(&grant.token) {
            Some(known) if *known == of => false,
            Some(known) => {
                let what = format!("{key}: {grant:?} is also a grant of {known:?}");
                book.violations.push(what);
                false
            }
            None => {
                book.grants.insert(grant.token, of);
                true
            }
        }
    }

    pub(crate) fn violation(&self, what: String) {
        self.book().violations.push(what);
    }

    /// Prints what has happened, and demands that everything has, and nothing that must not.
    #[track_caller]
    pub(crate) fn close(&self) {
        let book = self.book();
        let count = |event: &Event| book.counts.get(event).copied().unwrap_or(0);
        for event in &Event::ALL {
            println!("{:>20} {:>9}", format!("{event:?}"), count(event));
        }
        println!("{:>20} {:>9}", "violations", book.violations.len());
        assert!(book.violations.is_empty(), "{:#?}", book.violations);
        let missing: Vec<_> = Event::ALL
            .iter()
            .filter(|event| count(event) == 0)
            .collect();
        assert!(missing.is_empty(), "never happened: {missing:?}");
    }

    fn book(&self) -> std::sync::MutexGuard<'_, Book> {
        self.0.lock().expect("no client has panicked")
    }
}
