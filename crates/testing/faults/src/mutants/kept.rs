//! What is wrong with a grant that its connection keeps.
//!
//! What goes wrong for an instant after a stall that outlasts a lease (a PING is answered just before the end
//! is noticed) only `tests/keeping/promise.rs` can find: here a PING that is sent into a stall is older than a
//! third of a lease when the stall is over.

use super::ShownBy::Run;
use super::{Edit, Mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a kept grant that is removed closes nobody",
        shown_by: Run("kept"),
        edits: &[Edit {
            file: "crates/core/src/keeping/calls.rs",
            from: "        let ids = self.grants.of_lock(database, key);
        ids.into_iter().filter_map(|id| self.lose(id)).collect()",
            to: "        for id in self.grants.of_lock(database, key) {
            self.lose(id);
        }
        Vec::new()",
        }],
    },
    Mutant {
        name: "a kept grant is renewed when its lease is over",
        shown_by: Run("kept"),
        edits: &[Edit {
            file: "crates/core/src/keeping/registry.rs",
            from: "left(deadline, now).saturating_sub(third * 2).min(third),",
            to: "left(deadline, now),",
        }],
    },
    Mutant {
        name: "a kept grant is renewed only once",
        shown_by: Run("kept"),
        edits: &[Edit {
            file: "src/keeping/work.rs",
            from: "                grants.renewed(name, lease, deadline, now);
",
            to: "                let _ = (lease, deadline);
                grants.released(name);
",
        }],
    },
    Mutant {
        name: "a takeover leaves the old keeper open",
        shown_by: Run("kept"),
        edits: &[Edit {
            file: "crates/core/src/keeping/calls.rs",
            from: "            close = self
                .forget(before.connection, Some(keeper.client_id))
",
            to: "            close = None
",
        }],
    },
    Mutant {
        name: "the silence of a keeper is never judged",
        shown_by: Run("kept"),
        edits: &[Edit {
            file: "crates/core/src/keeping/silences.rs",
            from: "alive.since(connection.heard) >= silence + READING)",
            to: "alive.since(connection.heard) >= silence + READING) && false",
        }],
    },
    Mutant {
        name: "the silence of a keeper is judged too early",
        shown_by: Run("kept"),
        edits: &[
            Edit {
                file: "crates/core/src/keeping/silences.rs",
                from: "alive.since(connection.heard) >= silence + READING)",
                to: "alive.since(connection.heard) >= silence / 8)",
            },
            Edit {
                file: "crates/core/src/keeping/registry.rs",
                from: "connection.heard.plus(silence.length() + READING);",
                to: "connection.heard.plus(silence.length() / 8);",
            },
        ],
    },
    Mutant {
        name: "a stall of the server is silence of a keeper",
        shown_by: Run("kept-silent"),
        edits: &[Edit {
            file: "crates/core/src/keeping/hearing.rs",
            from: "if paused || monotonic.since(last) > LONGEST_GAP {",
            to: "if paused {",
        }],
    },
    Mutant {
        name: "what a closed connection kept is renewed on",
        shown_by: Run("kept"),
        edits: &[Edit {
            file: "src/keeping/events.rs",
            from: "        state.grants.client_closed(client);
",
            to: "",
        }],
    },
    Mutant {
        name: "a call that waited is not kept",
        shown_by: Run("kept"),
        edits: &[Edit {
            file: "src/waiting/serve.rs",
            from: "Some(holder), change, to_keep(&next.waiter)",
            to: "Some(holder), change, to_keep(&next.waiter).filter(|_| false)",
        }],
    },
    Mutant {
        name: "a holder of a shared lock is not renewed",
        shown_by: Run("kept"),
        edits: &[Edit {
            file: "src/locks/lock_key.rs",
            from: "            LockChange::Shared(change) => return self",
            to: "            LockChange::Shared(_) if announce == Announce::Quietly => {}
            LockChange::Shared(change) => return self",
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
