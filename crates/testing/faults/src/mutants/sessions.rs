//! Mutants of sessions: connections, POLLs, silence, and their ends.

use super::ShownBy::Tests;
use super::{Edit, Mutant};

pub(super) const MUTANTS: &[Mutant] = &[
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
        name: "a session is known to every user",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/registry.rs",
            from: "*session.user == *user && session.database == database",
            to: "session.database == database",
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
        name: "a POLL is answered before its grants are renewed",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/polls.rs",
            from: "may_poll.map(|()| sessions.next_due_of(id, now).is_some())",
            to: "may_poll.map(|()| sessions.next_due_of(id, now).is_some() && false)",
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
            from: "context.may_be_running(client)",
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
        name: "KILL leaves its caller in another database",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/open.rs",
            from: "    context.select_database(database);
    timer::arm(context);
    Ok(closed.grants)",
            to: "    let _ = database;
    timer::arm(context);
    Ok(closed.grants)",
        }],
    },
    Mutant {
        name: "LIST shows a connection that has another user or database",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "src/sessions/open.rs",
            from: "if session.client_id > 0 && !work::is_attached(context, session.id) {",
            to: "if false {",
        }],
    },
    Mutant {
        name: "the end of a silent session releases its grants",
        shown_by: Tests("sessions"),
        edits: &[Edit {
            file: "crates/core/src/sessions/presence.rs",
            from: "self.end(id, State::Forgotten).map",
            to: "self.end(id, State::Releasing).map",
        }],
    },
];
