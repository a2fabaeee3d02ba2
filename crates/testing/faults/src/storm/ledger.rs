//! Every grant that a client was told of, judged as it is told.

use std::collections::HashMap;
use std::sync::Mutex;
use testbed::Grant;

/// Shared by all clients of the storm.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<Grants>);

#[derive(Default)]
struct Grants {
    /// By token: the lock, and whose it is.
    known: HashMap<i64, (String, Vec<u8>)>,
    /// The highest token of each lock that any client was told of.
    highest: HashMap<String, i64>,
}

impl Ledger {
    /// The highest token of a lock that any client was told of until now.
    pub(crate) fn highest(&self, key: &str) -> i64 {
        self.grants().highest.get(key).copied().unwrap_or(0)
    }

    /// A client was told of a grant by a call that it made when `before` was the highest token; `begins`
    /// where it certainly began with that call. True where nobody had been told of that grant.
    ///
    /// # Errors
    /// Its error.
    pub(crate) fn add(
        &self,
        key: &str,
        before: i64,
        begins: bool,
        grant: &Grant,
    ) -> Result<bool, String> {
        let mut grants = self.grants();
        let highest = grants.highest.entry(key.to_owned()).or_default();
        *highest = grant.token.max(*highest);
        let whose = (key.to_owned(), grant.owner.clone());
        let is_new = match grants.known.get(&grant.token) {
            Some(known) if *known == whose => false,
            Some(known) => {
                return Err(format!("{key}: {grant:?} is also a grant of {known:?}"));
            }
            None => {
                grants.known.insert(grant.token, whose);
                true
            }
        };
        if begins && grant.token < before {
            return Err(format!(
                "{key}: {grant:?} was made after {before} was known"
            ));
        }
        Ok(is_new)
    }

    fn grants(&self) -> std::sync::MutexGuard<'_, Grants> {
        self.0.lock().expect("no client has panicked")
    }
}

#[cfg(test)]
mod tests {
    use super::Ledger;
    use testbed::Grant;

    fn grant(token: i64, owner: &str) -> Grant {
        Grant {
            token,
            owner: owner.as_bytes().to_vec(),
            holds: 1,
            lease: 10,
            limit: None,
        }
    }

    #[test]
    fn a_grant_is_new_once_and_belongs_to_one_owner_of_one_lock() {
        let ledger = Ledger::default();
        assert_eq!(ledger.add("a", 0, true, &grant(5, "ann")), Ok(true));
        assert_eq!(ledger.add("a", 0, true, &grant(5, "ann")), Ok(false));
        assert!(ledger.add("a", 0, true, &grant(5, "bob")).is_err());
        assert!(ledger.add("b", 0, true, &grant(5, "ann")).is_err());
    }

    #[test]
    fn a_later_grant_has_no_lower_token() {
        let ledger = Ledger::default();
        assert_eq!(ledger.add("a", 0, true, &grant(7, "ann")), Ok(true));
        assert_eq!(ledger.add("a", 0, true, &grant(6, "bob")), Ok(true));
        assert_eq!(ledger.highest("a"), 7);
        assert!(ledger.add("a", 7, true, &grant(5, "cid")).is_err());
        assert_eq!(
            ledger.add("a", 7, false, &grant(6, "bob")),
            Ok(false),
            "a share"
        );
    }
}
