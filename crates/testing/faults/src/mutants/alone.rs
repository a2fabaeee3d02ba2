//! Mutants of exclusive locks, and of the queue.

use super::ShownBy::Run;
use super::{Edit, Mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "who waits for somebody that waits is told of a deadlock",
        shown_by: Run("aof-always"),
        edits: &[Edit {
            file: "crates/core/src/deadlock/search.rs",
            from: "        if holder == self.caller {
",
            to: "        if holder == self.caller || waited_for_by.is_some() {
",
        }],
    },
    Mutant {
        name: "a re-entry gives a new token",
        shown_by: Run("aof-always"),
        edits: &[Edit {
            file: "crates/core/src/rules.rs",
            from: "        return reenter(holders, &before, call, now).map(Some);
",
            to: "        let mut granted = reenter(holders, &before, call, now)?;
        granted.holder.grant.token = clock.next(now).unwrap_or(before.grant.token);
        granted.change = holders.replace(&before, granted.holder);
        return Ok(Some(granted));
",
        }],
    },
    Mutant {
        name: "a release does not look at the owner",
        shown_by: Run("aof-always"),
        edits: &[Edit {
            file: "crates/core/src/rules.rs",
            from: "    let before = holders.find(call.owner).ok_or(Refusal::NotOwner)?;
    check_token(before.grant, call.token)?;
",
            to: "    let before = holders.find(call.owner);
    let before = before.or_else(|| holders.live(UnixTime::from_micros(0)).next());
    let before = before.ok_or(Refusal::NotOwner)?;
    check_token(before.grant, call.token)?;
",
        }],
    },
    Mutant {
        name: "a repeated acquire with HOLDS adds up",
        shown_by: Run("aof-always"),
        edits: &[Edit {
            file: "crates/core/src/rules.rs",
            from: "        Some(wanted) if held.holds >= wanted => held.holds,\n",
            to: "",
        }],
    },
    Mutant {
        name: "any token passes the fence",
        shown_by: Run("aof-always"),
        edits: &[Edit {
            file: "crates/core/src/rules.rs",
            from: "    match holders.and_then(|holders| holders.with(token)) {",
            to: "    match holders.and_then(|holders| holders.live(now).next()) {",
        }],
    },
    Mutant {
        name: "the token clock is not restored",
        shown_by: Run("aof-always"),
        edits: &[Edit {
            file: "src/locks/clock.rs",
            from: "    LAST.fetch_max(token.number(), Ordering::Relaxed);",
            to: "    let _ = token;",
        }],
    },
    Mutant {
        name: "a last release does not reach the file",
        shown_by: Run("aof-always"),
        edits: &[Edit {
            file: "src/locks/lock_key.rs",
            from: "(Self::LastRelease, _) => effect::replicate_release(context),",
            to: "(Self::LastRelease, _) => {}",
        }],
    },
    Mutant {
        name: "locks are handed over while writes are paused",
        shown_by: Run("failover"),
        edits: &[
            Edit {
                file: "src/waiting/serve.rs",
                from: "!context.writes_paused() && !context.flags().loading() && !context",
                to: "!context.flags().loading() && !context",
            },
            Edit {
                file: "src/waiting/serve.rs",
                from: "WriteCheck::NotNow => return Err(NoGrant::Waits(Step::Later)),",
                to: "WriteCheck::NotNow => {}",
            },
            Edit {
                file: "src/waiting/tick.rs",
                from: "!paused && !context.flags().loading()",
                to: "!context.flags().loading()",
            },
        ],
    },
    Mutant {
        name: "a grant on its way to a dead client is not taken back",
        shown_by: Run("dying-waiters"),
        edits: &[Edit {
            file: "crates/core/src/calls/granted.rs",
            from: "        self.give_back(id, taken, amount);
        true
",
            to: "        let _ = amount;
        true
",
        }],
    },
    Mutant {
        name: "a dead call takes the grant from its twin",
        shown_by: Run("dying-waiters"),
        edits: &[Edit {
            file: "crates/core/src/calls/granted.rs",
            from: "            Amount::Hold
        } else {",
            to: "            Amount::Grant
        } else {",
        }],
    },
    Mutant {
        name: "a newcomer passes the queue",
        shown_by: Run("dying-waiters"),
        edits: &[Edit {
            file: "src/waiting/lock.rs",
            from: "if key.is_exclusive() || !stands_in_line(key.context(), key.name()) {",
            to: "if true {",
        }],
    },
    Mutant {
        name: "a lock is granted where its slot has left",
        shown_by: Run("cluster-slots"),
        edits: &[
            Edit {
                file: "src/waiting/serve.rs",
                from: "self.caller == Caller::EventLoop || self.context.flags().cluster()",
                to: "self.caller == Caller::EventLoop && !self.context.flags().cluster()",
            },
            Edit {
                file: "src/waiting/serve.rs",
                from: "if is_released && context.flags().cluster() {",
                to: "if false {",
            },
            Edit {
                file: "src/waiting/cluster_redirect.rs",
                from: "if !context.flags().cluster() {",
                to: "if true {",
            },
        ],
    },
];
