//! Mutants of queued calls.

use super::ShownBy::Tests;
use super::{Edit, Mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a polling connection that has closed unread is not noticed",
        shown_by: Tests("queued"),
        edits: &[Edit {
            file: "src/waiting/programs.rs",
            from: "Presence::Here(client) if !polling_client_has_closed(context, session, client) => {",
            to: "Presence::Here(_) => {",
        }],
    },
    Mutant {
        name: "a blocked call of a program that is away is granted",
        shown_by: Tests("queued"),
        edits: &[Edit {
            file: "crates/core/src/calls/passed_over.rs",
            from: "call.filter(|call| call.is_passed_over != is_passed_over)",
            to: "call.filter(|call| call.waiter.is_queued() && call.is_passed_over != is_passed_over)",
        }, Edit {
            file: "src/waiting/turn.rs",
            from: "Some(Program::Away) => Look::PassedOver,",
            to: "Some(Program::Away) if waiter.is_queued() => Look::PassedOver,
        Some(Program::Away) => Look::Here,",
        }],
    },
    Mutant {
        name: "lock.max-queued allows one call too many",
        shown_by: Tests("queued"),
        edits: &[Edit {
            file: "src/waiting/join.rs",
            from: "is_queued && queued >= max_queued()",
            to: "is_queued && queued > max_queued()",
        }],
    },
    Mutant {
        name: "queued calls count for lock.max-waiters-total",
        shown_by: Tests("queued"),
        edits: &[Edit {
            file: "src/waiting/join.rs",
            from: "!is_queued && all - queued >= max_waiters_total()",
            to: "!is_queued && all >= max_waiters_total()",
        }],
    },
    Mutant {
        name: "blocked calls count for lock.max-queued",
        shown_by: Tests("queued"),
        edits: &[Edit {
            file: "src/waiting/join.rs",
            from: "is_queued && queued >= max_queued()",
            to: "is_queued && all >= max_queued()",
        }],
    },
    Mutant {
        name: "lock.max-waiters does not limit queued calls",
        shown_by: Tests("queued"),
        edits: &[Edit {
            file: "src/waiting/join.rs",
            from: "if waiting(context, name) >= max_waiters() {",
            to: "if !is_queued && waiting(context, name) >= max_waiters() {",
        }],
    },
    Mutant {
        name: "a session with too many events accepts a wait",
        shown_by: Tests("queued"),
        edits: &[Edit {
            file: "src/waiting/join.rs",
            from: ".is_some_and(|id| sessions::is_full(context, id))",
            to: ".is_some_and(|id| sessions::is_full(context, id) && false)",
        }],
    },
    Mutant {
        name: "a call in line is refused when its session has too many events",
        shown_by: Tests("queued"),
        edits: &[Edit {
            file: "src/waiting/serve.rs",
            from: ".map_or(Membership::Stays, Membership::JoinsAfterWait)",
            to: ".map_or(Membership::Stays, Membership::Joins)",
        }],
    },
    Mutant {
        name: "queued calls are not searched for a deadlock",
        shown_by: Tests("queued"),
        edits: &[Edit {
            file: "src/waiting/join.rs",
            from: "    let judged = deadlock::judge(context, name, request.owner, request.limit);
",
            to: "    let judged = if waits.is_queued {
        Judged::Waits
    } else {
        deadlock::judge(context, name, request.owner, request.limit)
    };
",
        }],
    },
    Mutant {
        name: "a call that is passed over closes no circle",
        shown_by: Tests("queued"),
        edits: &[Edit {
            file: "crates/core/src/deadlock/search.rs",
            from: "        } = calls.get(call)?;",
            to: "        } = calls.get(call).filter(|call| !call.is_passed_over())?;",
        }],
    },
    Mutant {
        name: "a node of a cluster finds no deadlock of queued calls",
        shown_by: Tests("cluster"),
        edits: &[Edit {
            file: "src/waiting/join.rs",
            from: "matches!(judged, Judged::ByTick)",
            to: "matches!(judged, Judged::ByTick) && !waits.is_queued",
        }],
    },
    Mutant {
        name: "a newcomer passes calls that may be about to return after a stall",
        shown_by: Tests("queued"),
        edits: &[Edit {
            file: "src/waiting/line.rs",
            from: "|| STATE.stalls.is_catching_up(monotonic()))",
            to: "|| false)",
        }],
    },
    Mutant {
        name: "a line is served before the server has caught up",
        shown_by: Tests("queued"),
        edits: &[Edit {
            file: "src/waiting/turn.rs",
            from: "&& (!STATE.stalls.is_catching_up(next.now) || {",
            to: "&& (true || {",
        }],
    },
    Mutant {
        name: "a line is served while calls of a program in it are moved",
        shown_by: Tests("queued"),
        edits: &[Edit {
            file: "src/waiting/turn.rs",
            from: "let has_order = !moves.concern(calls, *database, key)",
            to: "let has_order = true",
        }],
    },
    Mutant {
        name: "only the first of many calls of a program are passed over",
        shown_by: Tests("queued"),
        edits: &[Edit {
            file: "src/waiting/moves.rs",
            from: "        self.next = next.map(|place| (session, place));
        if next.is_none() {",
            to: "        let _ = next;
        if true {",
        }],
    },
    Mutant {
        name: "a call whose time is up is reported as cancelled",
        shown_by: Tests("queued"),
        edits: &[Edit {
            file: "src/waiting/answer.rs",
            from: "Cow::Borrowed(\"timeout\")",
            to: "Cow::Borrowed(\"cancelled\")",
        }],
    },
    Mutant {
        name: "the event of a grant has no limit",
        shown_by: Tests("queued"),
        edits: &[Edit {
            file: "src/waiting/answer.rs",
            from: "limit: limit.number(),",
            to: "limit: limit.number() * 0,",
        }],
    },
    Mutant {
        name: "a call that is passed over cannot be cancelled",
        shown_by: Tests("queued"),
        edits: &[Edit {
            file: "src/waiting/join.rs",
            from: "let id = state.calls.first_of(database, name.bytes(), owner)?;",
            to: "let id = state.calls.first_eligible_of(database, name.bytes(), owner)?;",
        }],
    },
    Mutant {
        name: "a call that is passed over has no timeout",
        shown_by: Tests("queued"),
        edits: &[Edit {
            file: "src/waiting/tick.rs",
            from: "        if end <= now {
",
            to: "        if end <= now && !state.calls.get(id).is_some_and(|call| call.is_passed_over()) {
",
        }],
    },
    Mutant {
        name: "WRONGTYPE does not reach a call that is passed over",
        shown_by: Tests("queued"),
        edits: &[Edit {
            file: "src/waiting/refuse.rs",
            from: "let id = state.calls.first(context.database(), name.bytes())?;",
            to: "let id = state.calls.first_eligible(context.database(), name.bytes())?;",
        }],
    },
    Mutant {
        name: "the grant of a queued call ends no wait in the statistics",
        shown_by: Tests("queued"),
        edits: &[Edit {
            file: "src/waiting/turn.rs",
            from: "            let call = state.calls.grant_queued(next.id, token)?;
            ended(&call.lock_id);
",
            to: "            let call = state.calls.grant_queued(next.id, token)?;
",
        }],
    },
    Mutant {
        name: "a queued call outlives the time of its server as a replica",
        shown_by: Tests("queued"),
        edits: &[Edit {
            file: "src/waiting/events.rs",
            from: "state.ended_sessions = state.calls.sessions().collect();",
            to: "let _ = state;",
        }],
    },
    Mutant {
        name: "a call whose session has ended is granted",
        shown_by: Tests("queued"),
        edits: &[Edit {
            file: "src/waiting/turn.rs",
            from: "Some(Program::Gone) => Look::Ends(WaitEnd::Refused, Answer::Error(NO_SESSION)),",
            to: "Some(Program::Gone) => Look::Here,",
        }],
    },
    Mutant {
        name: "the calls of a session that has ended stay in line",
        shown_by: Tests("queued"),
        edits: &[Edit {
            file: "src/waiting/session_end.rs",
            from: "        state.ended_sessions.push(session);
",
            to: "        let _ = state;
",
        }],
    },
    Mutant {
        name: "a session is told of a grant after a listener",
        shown_by: Tests("neighbours"),
        edits: &[Edit {
            file: "src/waiting/serve.rs",
            from: "                let to_answer = grant(context, &next, &granted);
                let events = [KeyspaceEvent::Release, KeyspaceEvent::Acquire];
                key.write(
                    change,
                    Announce::Events(&events[usize::from(!is_released)..]),
                );
",
            to: "                let events = [KeyspaceEvent::Release, KeyspaceEvent::Acquire];
                key.write(
                    change,
                    Announce::Events(&events[usize::from(!is_released)..]),
                );
                let to_answer = grant(context, &next, &granted);
",
        }],
    },
];
