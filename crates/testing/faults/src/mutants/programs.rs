//! Mutants of sessions that fault runs notice.

use super::ShownBy::Run;
use super::{Edit, Mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "the removal of a grant in a session is not reported",
        shown_by: Run("cut-programs"),
        edits: &[Edit {
            file: "crates/core/src/sessions/losses.rs",
            from: "        for id in self.grants.of_lock(database, key) {
            self.lose(id, reason, now);
",
            to: "        let _ = (reason, now);
        for id in self.grants.of_lock(database, key) {
            self.remove(id);
",
        }],
    },
    Mutant {
        name: "a grant in a session is renewed only once",
        shown_by: Run("stalled-programs"),
        edits: &[Edit {
            file: "src/sessions/work.rs",
            from: "            Outcome::Renewed(deadline) => sessions.renewed(grant, deadline, now),",
            to: "            Outcome::Renewed(_) => sessions.given_back(name),",
        }],
    },
    Mutant {
        name: "the silence of a session is never judged",
        shown_by: Run("stalled-programs"),
        edits: &[Edit {
            file: "crates/core/src/sessions/session.rs",
            from: "self.heard.plus(self.timeout.length() + READING)",
            to: "self.heard.plus(self.timeout.length() * 1000)",
        }],
    },
    Mutant {
        name: "the grant of a queued call is in no session",
        shown_by: Run("stalled-programs"),
        edits: &[Edit {
            file: "src/waiting/serve.rs",
            from: "                let membership = membership(&next.waiter);",
            to: "                let membership = Some(membership(&next.waiter));
                let membership = membership.filter(|_| false).unwrap_or(Membership::Stays);",
        }],
    },
    Mutant {
        name: "a holder of a shared lock is not renewed",
        shown_by: Run("cut-programs"),
        edits: &[Edit {
            file: "src/locks/lock_key.rs",
            from: "            LockChange::Shared(change) => return self",
            to: "            LockChange::Shared(_) if announce == Announce::Quietly => {}
            LockChange::Shared(change) => return self",
        }],
    },
    Mutant {
        name: "a POLL promises too much",
        shown_by: Run("frozen-programs"),
        edits: &[Edit {
            file: "crates/core/src/sessions/polls.rs",
            from: "    i64::try_from(sure.as_millis()).unwrap_or(i64::MAX)",
            to: "    i64::try_from(sure.as_millis()).unwrap_or(i64::MAX) * 3",
        }],
    },
    Mutant {
        name: "a renewal by the server does not reach the replica",
        shown_by: Run("failover"),
        edits: &[Edit {
            file: "src/locks/lock_key.rs",
            from: "            (Self::FromStream(_), _) => {}
",
            to: "            (Self::FromStream(_) | Self::Quietly, _) => {}
",
        }],
    },
];
