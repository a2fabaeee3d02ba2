//! What is wrong with sessions.

use super::ShownBy::Tests;
use super::{Edit, Mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a grant is renewed when two thirds of its lease have passed",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/renewals.rs",
            from: "Duration::from_millis(lease.millis()) / 3\n",
            to: "Duration::from_millis(lease.millis()) * 2 / 3\n",
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
        name: "sure-ms is not 0 while further events are pending",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/polls.rs",
            from: "if has_flushed || events.len() < session.events.len() {",
            to: "if has_flushed {",
        }],
    },
    Mutant {
        name: "sure-ms is not 0 while flushed grants are to be reported",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/polls.rs",
            from: "if has_flushed || events.len() < session.events.len() {",
            to: "if events.len() < session.events.len() {",
        }],
    },
    Mutant {
        name: "sure-ms omits how long the POLL has waited",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/polls.rs",
            from: "Duration::from_micros(left).saturating_add(waited)",
            to: "Duration::from_micros(left)",
        }],
    },
    Mutant {
        name: "sure-ms is that of the lease that ends last",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/polls.rs",
            from: "(session.first_end(), session.leases.first_key_value())",
            to: "(session.ends.last().map(|(end, _)| *end), session.leases.first_key_value())",
        }],
    },
    Mutant {
        name: "a newer connection acknowledges what an older one was answered",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/polls.rs",
            from: "if client_id == older {",
            to: "if true {",
        }],
    },
    Mutant {
        name: "a reply that the server drops is acknowledged",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/polls.rs",
            from: "self.update(id, |session| session.events.answer_again());",
            to: "let _ = id;",
        }],
    },
    Mutant {
        name: "an older connection polls again when the newer one has closed",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/polls.rs",
            from: "let is_older = client_id < session.client_id;",
            to: "let is_older = client_id < session.client_id && session.is_attached;",
        }],
    },
    Mutant {
        name: "the end of an older connection detaches the session",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/polls.rs",
            from: "        self.clients.remove(&(older, id));
",
            to: "",
        }],
    },
    Mutant {
        name: "a POLL that waits is answered late after a grant joins",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/registry.rs",
            from: "                poll.hurry(due);",
            to: "                let _ = poll;",
        }],
    },
    Mutant {
        name: "a POLL that waits is answered late after a lease is shortened",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/losses.rs",
            from: "        if is_shorter {",
            to: "        if is_shorter && false {",
        }],
    },
    Mutant {
        name: "a POLL waits longer than a third of a lease",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/polls.rs",
            from: "longest.min(third.max(SHORTEST_WAIT))",
            to: "longest.max(third.min(SHORTEST_WAIT))",
        }],
    },
    Mutant {
        name: "a POLL waits longer than half of the timeout",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/polls.rs",
            from: "LONGEST_WAIT.min(session.timeout.length() / 2)",
            to: "LONGEST_WAIT",
        }],
    },
    Mutant {
        name: "a session ends after half of its timeout",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/session.rs",
            from: "self.heard.plus(self.timeout.length() + READING)",
            to: "self.heard.plus(self.timeout.length() / 2)",
        }],
    },
    Mutant {
        name: "a stall of the server is silence of a program",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/state.rs",
            from: "if stalled || paused {",
            to: "if paused {",
        }],
    },
    Mutant {
        name: "a pause of the server is silence of a program",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/state.rs",
            from: "if stalled || paused {",
            to: "if stalled {",
        }],
    },
    Mutant {
        name: "a program goes away while its POLL waits",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/session.rs",
            from: "let timeout = if self.poll.is_some() {",
            to: "let timeout = if self.poll.is_some() && false {",
        }],
    },
    Mutant {
        name: "the end of a connection is no sign of life",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/presence.rs",
            from: "            self.update(*id, |session| session.heard = alive);
",
            to: "            let _ = alive;
",
        }],
    },
    Mutant {
        name: "CLOSE releases no more than a hundred grants",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/work.rs",
            from: "while STATE.with(context, |state| state.sessions.has_to_release()) && writes.are_allowed() {",
            to: "while false && writes.are_allowed() {",
        }],
    },
    Mutant {
        name: "a command finds a lock held by a session that was closed",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/calls.rs",
            from: "sessions.take_to_release_of(database, name.bytes())",
            to: "sessions.take_to_release_of(database, b\"\")",
        }],
    },
    Mutant {
        name: "CLOSE releases one hold of each grant",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/waiting/session_end.rs",
            from: "amount: ReleaseAmount::All,",
            to: "amount: ReleaseAmount::One,",
        }],
    },
    Mutant {
        name: "a POLL that waits is not answered at CLOSE",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/open.rs",
            from: "    polls::refuse(context, id, NO_SESSION);
",
            to: "",
        }],
    },
    Mutant {
        name: "KILL ends only the caller's sessions",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/commands/session/close.rs",
            from: "close(context, arguments, sessions::check_open)",
            to: "close(context, arguments, sessions::check_known)",
        }],
    },
    Mutant {
        name: "CLOSE ends any user's session",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/commands/session/close.rs",
            from: "close(context, arguments, sessions::check_known)",
            to: "close(context, arguments, sessions::check_open)",
        }],
    },
    Mutant {
        name: "a session is known in every database",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/registry.rs",
            from: "*session.user == *user && session.database == database",
            to: "*session.user == *user",
        }],
    },
    Mutant {
        name: "a session is known to every user",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/registry.rs",
            from: "*session.user == *user && session.database == database",
            to: "session.database == database",
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
        name: "LIST is in no order",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/registry.rs",
            from: "        oldest.sort_unstable();
",
            to: "",
        }],
    },
    Mutant {
        name: "LIST counts silence while a POLL waits",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/registry.rs",
            from: "let is_silent = session.poll.is_none();",
            to: "let is_silent = true;",
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
        name: "an eviction is reported as a deletion",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/losses.rs",
            from: "Some(Removal::Eviction) => LossReason::Evicted,",
            to: "Some(Removal::Eviction) => LossReason::Deleted,",
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
        name: "a POLL is answered before its grants are renewed",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/polls.rs",
            from: "may_poll.map(|()| sessions.next_due_of(id, now).is_some())",
            to: "may_poll.map(|()| sessions.next_due_of(id, now).is_some() && false)",
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
        name: "lock.max-sessions allows one session too many",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/open.rs",
            from: "counts(context).sessions >= max_sessions()",
            to: "counts(context).sessions > max_sessions()",
        }],
    },
    Mutant {
        name: "a connection that selects another database still polls",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/work.rs",
            from: "state.sessions.knows(id, user.text().bytes(), database)",
            to: "!user.text().bytes().is_empty() || database >= 0 || state.is_idle()",
        }],
    },
    Mutant {
        name: "a script may block the connection that polls",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/open.rs",
            from: "!context.running(&[client]).is_empty()",
            to: "false",
        }],
    },
    Mutant {
        name: "sessions outlive the time of their server as a primary",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/losses.rs",
            from: "            state.sessions.end_all();
",
            to: "",
        }],
    },
    Mutant {
        name: "after a stall the nearest end of a lease does not come first",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/renewals.rs",
            from: "self.late = is_late.then(|| self.start_late(now));",
            to: "self.late = (is_late && false).then(|| self.start_late(now));",
        }],
    },
    Mutant {
        name: "an older connection is told that the session has ended",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/polls.rs",
            from: "displaced.answer(Answer::Error(NEWER_CONNECTION));",
            to: "displaced.answer(Answer::Error(NO_SESSION));",
        }],
    },
    Mutant {
        name: "INFO does not count the sessions that ended by silence",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/presence.rs",
            from: "        self.counts.silent += 1;
",
            to: "",
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
];
