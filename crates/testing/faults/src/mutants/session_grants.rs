//! Mutants of the grants of sessions: renewals, moves and losses.

use super::ShownBy::Tests;
use super::{Edit, Mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a grant is renewed when two thirds of its lease have passed",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/renewals.rs",
            from: "Duration::from_millis(lease.millis()) / 3
",
            to: "Duration::from_millis(lease.millis()) * 2 / 3
",
        }],
    },
    Mutant {
        name: "a renewal by the server wakes WATCH",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/grant.rs",
            from: "key.write(&granted.change, Announce::Quietly);",
            to: "key.write(&granted.change, Announce::Events(&[]));",
        }],
    },
    Mutant {
        name: "GRANTS shows keys that the caller may not read",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/commands/session/grants.rs",
            from: " || !rights.allow(context, &call) {",
            to: " {",
        }],
    },
    Mutant {
        name: "GRANTS ignores COUNT",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/commands/session/grants.rs",
            from: "        .take(max.unwrap_or(usize::MAX))
",
            to: "",
        }],
    },
    Mutant {
        name: "a session is not told of a grant that another one takes",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/losses.rs",
            from: "Some((id, _)) => self.take(id, Some(session)),",
            to: "Some((id, _)) => drop(self.remove(id)),",
        }],
    },
    Mutant {
        name: "the event of a grant that was taken has no session",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/losses.rs",
            from: "                session: to,",
            to: "                session: to.filter(|_| false),",
        }],
    },
    Mutant {
        name: "SESSION 0 leaves a grant in its session",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/calls.rs",
            from: "None if membership == Membership::Leaves => sessions.take_out(name),",
            to: "None if membership == Membership::Leaves => {}",
        }],
    },
    Mutant {
        name: "a release by another program is not reported",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/losses.rs",
            from: "if by == Some(session) {",
            to: "if by.is_some() {",
        }],
    },
    Mutant {
        name: "a release that names no session is not reported",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/losses.rs",
            from: "if by == Some(session) {",
            to: "if by.is_none_or(|by| by == session) {",
        }],
    },
    Mutant {
        name: "a flushed grant is reported after its lock is granted again",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/calls.rs",
            from: "        sessions.report_flushed_of(database, key, now);
",
            to: "",
        }],
    },
    Mutant {
        name: "a share whose lease has ended is reported late",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/calls.rs",
            from: "state.sessions.lost(name, LossReason::Expired, now);",
            to: "let _ = (&state, name, now);",
        }],
    },
    Mutant {
        name: "a grant whose token is raised leaves its session",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/calls.rs",
            from: "sessions.raised(named(before), token);",
            to: "let _ = before;",
        }],
    },
    Mutant {
        name: "the grants of a detached session are renewed",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/session.rs",
            from: "due: self.first_due().filter(|_| self.is_attached),",
            to: "due: self.first_due(),",
        }],
    },
    Mutant {
        name: "a command renews a grant of a detached session",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/renewals.rs",
            from: "if self.live(of).is_some_and(|of| of.is_attached) {",
            to: "if self.live(of).is_some() {",
        }],
    },
    Mutant {
        name: "a persistent lock is renewed",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/grant.rs",
            from: "if holder.end == Deadline::Never || grant.deadline == Deadline::Never {",
            to: "if false {",
        }],
    },
    Mutant {
        name: "a third is not counted anew when a PERSIST is lifted",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/losses.rs",
            from: "(Deadline::Never, Deadline::At(_)) => now.plus(third(lease)),",
            to: "(Deadline::Never, Deadline::At(_)) => now.monotonic,",
        }],
    },
    Mutant {
        name: "a lease of a second is too short for a session",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/renewals.rs",
            from: "lease.millis() >= 1000",
            to: "lease.millis() > 1000",
        }],
    },
    Mutant {
        name: "a session with too many events refuses a re-entry",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/calls.rs",
            from: "Membership::Joins(id) if current != Some(id) && is_full(context, id) => {",
            to: "Membership::Joins(id) if is_full(context, id) => {",
        }],
    },
    Mutant {
        name: "a look at a lock comes before what is due",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/calls.rs",
            from: "        && has_due(context, name)
",
            to: "        && has_due(context, name)
        && false
",
        }],
    },
    Mutant {
        name: "a shortened lease is renewed when the longer one was due",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/losses.rs",
            from: "        let due = now.plus(third(lease));
        self.set(id, lease, deadline, due);
        if is_shorter {",
            to: "        let due = node.due;
        self.set(id, lease, deadline, due);
        if is_shorter {",
        }],
    },
    Mutant {
        name: "a SWAPDB of a database with itself loses grants",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/losses.rs",
            from: "            Databases::Two(one, other) if one == other => {}
",
            to: "",
        }],
    },
    Mutant {
        name: "SWAPDB reports the grants of one database",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/losses.rs",
            from: "                sessions.flushed(Some(other), LossReason::Deleted);
",
            to: "                let _ = other;
",
        }],
    },
    Mutant {
        name: "FLUSHDB loses the grants of all databases",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/losses.rs",
            from: "Databases::One(database) => sessions.flushed(Some(database), LossReason::Flushed),",
            to: "Databases::One(_) => sessions.flushed(None, LossReason::Flushed),",
        }],
    },
    Mutant {
        name: "MAXWAITERS comes behind what depends on the state of a lock",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/calls.rs",
            from: "Membership::Joins(id) if refusal.is_last() && is_full(context, id) => {",
            to: "Membership::Joins(id) if refusal.is_last() && is_full(context, id) && false => {",
        }],
    },
];
