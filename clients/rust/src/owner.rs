//! Names for owners.

use crate::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use uuid::Uuid;

/// The longest owner that the server takes, in bytes.
const LONGEST: usize = 256;
/// How much of a service's and of a host's name goes into an owner.
const LONGEST_PART: usize = 64;

/// Makes owners that nobody else has: `service:host:pid:uuid`. Whoever looks at a lock sees by that
/// who holds it.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// `service:host:pid:`
    prefix: String,
}

impl Names {
    pub(crate) fn new(service: &str) -> Self {
        let host = gethostname::gethostname();
        let [service, host] = [service, &host.to_string_lossy()].map(part);
        let process = std::process::id();
        Self {
            prefix: format!("{service}:{host}:{process}:"),
        }
    }

    /// An owner for one task.
    pub(crate) fn fresh(&self) -> String {
        format!("{}{}", self.prefix, Uuid::new_v4())
    }
}

/// Who acquires.
#[derive(Clone, Debug)]
pub(crate) enum Owner {
    /// Somebody who does nothing else.
    Fresh,
    /// A task, which acquires other locks too.
    Task(Arc<TaskOwner>),
    /// Whoever the caller has named: it may come back, in another process too.
    Named(String),
}

impl Owner {
    /// What its grants are found by again, if they are.
    pub(crate) fn identity(&self) -> Option<&str> {
        match self {
            Self::Fresh => None,
            Self::Task(task) => Some(&task.first),
            Self::Named(name) => Some(name),
        }
    }

    pub(crate) fn is_named(&self) -> bool {
        matches!(self, Self::Named(_))
    }
}

/// A task's name. It takes another one when it cannot be known what becomes of a call under the last one.
#[derive(Debug)]
pub(crate) struct TaskOwner {
    names: Names,
    /// The first name, by which it is known here.
    first: String,
    present: Mutex<Present>,
}

#[derive(Debug)]
struct Present {
    name: String,
    /// How many calls of that name have been called off, and may still have an effect.
    open: usize,
}

impl TaskOwner {
    pub(crate) fn new(names: Names) -> Self {
        let first = names.fresh();
        let name = first.clone();
        Self {
            names,
            first,
            present: Mutex::new(Present { name, open: 0 }),
        }
    }

    /// By which it asks for what it does not have.
    pub(crate) fn name(&self) -> String {
        let mut present = self.present();
        if present.open > 0 {
            present.name = self.names.fresh();
            present.open = 0;
        }
        present.name.clone()
    }

    /// A call under this name is called off.
    pub(crate) fn calls_off(&self, name: &str) {
        let mut present = self.present();
        if present.name == name {
            present.open += 1;
        }
    }

    /// That is over, and nothing of it comes late.
    pub(crate) fn has_called_off(&self, name: &str) {
        let mut present = self.present();
        if present.name == name {
            present.open = present.open.saturating_sub(1);
        }
    }

    fn present(&self) -> MutexGuard<'_, Present> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of an owner: printable, not too long, and with no colon of its own.
fn part(text: &str) -> String {
    let mut part = text.replace(|c: char| c == ':' || !c.is_ascii_graphic(), "_");
    while part.len() > LONGEST_PART {
        part.pop();
    }
    part
}

/// Refuses what the server would take for something else, or not at all.
pub(crate) fn check(owner: &str) -> Result<(), Error> {
    match owner {
        "" => Err(Error::misuse("an owner has at least one byte")),
        "*" => Err(Error::misuse(
            "`*` is no owner: the call could not be repeated",
        )),
        _ if owner.len() > LONGEST => Err(Error::misuse("an owner has at most 256 bytes")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Names, check};

    #[test]
    fn an_owner_tells_service_host_process_and_is_unique() {
        let names = Names::new("shop:\neu");
        let owner = names.fresh();
        let parts: Vec<_> = owner.split(':').collect();
        assert_eq!(parts.len(), 4, "{owner}");
        assert_eq!(parts[0], "shop__eu");
        assert_eq!(parts[2], std::process::id().to_string());
        assert_ne!(owner, names.fresh());
    }

    #[test]
    fn an_owner_is_never_too_long() {
        let owner = Names::new(&"ü".repeat(300)).fresh();
        assert!(check(&owner).is_ok(), "{owner}");
    }

    #[test]
    fn what_cannot_be_an_owner_is_refused() {
        for owner in ["", "*", &"x".repeat(257)] {
            assert!(check(owner).is_err(), "{owner:?}");
        }
        assert!(check(&"x".repeat(256)).is_ok());
    }
}
