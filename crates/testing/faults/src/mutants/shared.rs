//! Mutants of shared locks.

use super::ShownBy::Run;
use super::{Edit, Mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "there is room for one too many",
        shown_by: Run("aof-always"),
        edits: &[Edit {
            file: "crates/core/src/holders.rs",
            from: "                let count = lock.set.count() + 1;
",
            to: "                let count = lock.set.count();
",
        }],
    },
    Mutant {
        name: "who has room passes those who wait",
        shown_by: Run("aof-always"),
        edits: &[Edit {
            file: "src/waiting/lock.rs",
            from: "(key, stands_in_line(context, name))",
            to: "(key, false)",
        }],
    },
    Mutant {
        name: "the queue continues behind one who has no room",
        shown_by: Run("dying-waiters"),
        edits: &[Edit {
            file: "crates/core/src/next_in_line.rs",
            from: "    let first = calls.first_eligible(database, key)?;
",
            to: "    let mut line = calls.iter(database, key);
    let (first, _) =
        line.find(|(_, call)| Holders::has_room(holders, call.waiter.limit, max_holders))?;
",
        }],
    },
    Mutant {
        name: "a share whose lease has ended stays",
        shown_by: Run("aof-always"),
        edits: &[Edit {
            file: "src/waiting/ended.rs",
            from: "    let change = holders.expire(now);
",
            to: "    let change = LockChange::Keep;
",
        }],
    },
    Mutant {
        name: "the end of one lease ends all",
        shown_by: Run("aof-always"),
        edits: &[Edit {
            file: "crates/core/src/holders.rs",
            from: "                match self.live_count(now) {
",
            to: "                match if self.live_count(now) < self.count() { 0 } else { 1 } {
",
        }],
    },
    Mutant {
        name: "a release of one share frees the lock",
        shown_by: Run("aof-always"),
        edits: &[Edit {
            file: "crates/core/src/holders.rs",
            from: "            lock.change(SharedStep::Remove(token), lock.set.count() - 1, latest)",
            to: "            let _ = latest;
            LockChange::Free",
        }],
    },
    Mutant {
        name: "the share of a caller who is gone stays",
        shown_by: Run("dying-waiters"),
        edits: &[Edit {
            file: "crates/core/src/calls/give_back.rs",
            from: "        let holder = holders?.uncapped(self.taken.token)?;
",
            to: "        let holder = holders
            .filter(|holders| matches!(holders, Holders::Exclusive(_)))?
            .uncapped(self.taken.token)?;
",
        }],
    },
    Mutant {
        name: "who holds it with others gets it alone",
        shown_by: Run("aof-always"),
        edits: &[Edit {
            file: "crates/core/src/rules.rs",
            from: "    } else if wanted.allows(holders.count()) {
",
            to: "    } else if true {
",
        }],
    },
    Mutant {
        name: "a narrower limit is forgotten",
        shown_by: Run("aof-always"),
        edits: &[Edit {
            file: "crates/core/src/rules.rs",
            from: "        Ok(wanted)
",
            to: "        Ok(present)
",
        }],
    },
    Mutant {
        name: "a limit does not reach the replica",
        shown_by: Run("failover"),
        edits: &[Edit {
            file: "crates/core/src/effect/shared.rs",
            from: "                writer.length += holder.write_shared(&mut writer.bytes[writer.length..]);
",
            to: "                let holder = Holder { limit: crate::Limit::NONE, ..*holder };
                writer.length += holder.write_shared(&mut writer.bytes[writer.length..]);
",
        }],
    },
    Mutant {
        name: "a share that goes does not reach the replica",
        shown_by: Run("failover"),
        edits: &[Edit {
            file: "src/locks/lock_key.rs",
            from: "        announce.send(context, name, Some(effect));
        Ok(())",
            to: "        if !matches!(change.step, SharedStep::Remove(_)) {
            announce.send(context, name, Some(effect));
        }
        Ok(())",
        }],
    },
    Mutant {
        name: "a lock that moves loses its limits",
        shown_by: Run("cluster-slots"),
        edits: &[Edit {
            file: "src/locks/redis_lock.rs",
            from: "                    out.number(stored.limit);
",
            to: "                    out.number(0);
",
        }],
    },
    Mutant {
        name: "any token passes the fence of a share",
        shown_by: Run("aof-always"),
        edits: &[Edit {
            file: "crates/core/src/rules.rs",
            from: "        _ => Err(Refusal::Fenced),
    }
}",
            to: "        _ if holders.is_some_and(|holders| holders.count() > 1) => Ok(()),
        _ => Err(Refusal::Fenced),
    }
}",
        }],
    },
];
