//! Who was told that it holds what, and when.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use testbed::Grant;

/// Shared by all clients.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<Book>);

#[derive(Default)]
struct Book {
    /// Who is inside, from the reply to its acquire until it sends its release.
    inside: HashMap<String, Grant>,
    highest: HashMap<String, i64>,
    /// Grants that are never given back, with their keys.
    kept: Vec<(String, Grant)>,
    granted: Vec<Granted>,
    violations: Vec<String>,
}

#[derive(Clone, Copy)]
struct Granted {
    at: Instant,
    to: Asker,
}

/// Who asks for locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// Goes where it is sent.
    Guided,
    /// Asks one server, whatever that says.
    Stubborn,
}

impl Ledger {
    /// A client was told that it holds a lock.
    pub(crate) fn enter(&self, to: Asker, key: &str, grant: &Grant) {
        let mut book = self.book();
        book.granted.push(Granted::now(to));
        if let Some(other) = book.inside.insert(key.to_owned(), grant.clone()) {
            let what = format!("{key}: {grant:?} while {other:?} stands");
            book.violations.push(what);
        }
        let highest = book.highest.insert(key.to_owned(), grant.token);
        if highest.is_some_and(|highest| highest >= grant.token) {
            let what = format!("{key}: {grant:?} after {highest:?}");
            book.violations.push(what);
        }
    }

    /// It is about to give it back.
    pub(crate) fn leave(&self, key: &str, grant: &Grant) {
        let mut book = self.book();
        if book.inside.get(key) == Some(grant) {
            book.inside.remove(key);
        }
    }

    /// A client was told that it holds a lock, which it will not give back.
    pub(crate) fn keep(&self, to: Asker, key: &str, grant: Grant) {
        let mut book = self.book();
        book.granted.push(Granted::now(to));
        book.kept.push((key.to_owned(), grant));
    }

    pub(crate) fn violation(&self, what: String) {
        self.book().violations.push(what);
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.book().violations.clone()
    }

    pub(crate) fn kept(&self) -> Vec<(String, Grant)> {
        self.book().kept.clone()
    }

    /// How many grants clients that go where they are sent were told of since then.
    pub(crate) fn granted_since(&self, then: Instant) -> usize {
        let guided = |grant: &&Granted| grant.at > then && grant.to == Asker::Guided;
        self.book().granted.iter().filter(guided).count()
    }

    /// The longest time between two grants, of those from then on, to any client and to those that go
    /// where they are sent.
    pub(crate) fn longest_gaps_since(&self, then: Instant) -> [Duration; 2] {
        let book = self.book();
        let gap = |counts: &dyn Fn(Asker) -> bool| {
            let grants = book.granted.iter();
            let counted = grants.filter(|grant| grant.at > then && counts(grant.to));
            let mut times: Vec<_> = counted.map(|grant| grant.at).collect();
            times.sort_unstable();
            let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
            gaps.max().unwrap_or_default()
        };
        [gap(&|_| true), gap(&|to| to == Asker::Guided)]
    }

    fn book(&self) -> std::sync::MutexGuard<'_, Book> {
        self.0.lock().expect("no client has panicked")
    }
}

impl Granted {
    fn now(to: Asker) -> Self {
        let at = Instant::now();
        Self { at, to }
    }
}
