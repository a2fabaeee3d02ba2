//! What is wrong with a lock that several share.

use super::{Edit, Mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "there is room for one too many",
        shown_by: "aof-always",
        edits: &[Edit {
            file: "crates/core/src/sharing/holders.rs",
            from: "                let holders = shared.shares.count() + 1;
",
            to: "                let holders = shared.shares.count();
",
        }],
    },
    Mutant {
        name: "who has room passes those who wait",
        shown_by: "aof-always",
        edits: &[Edit {
            file: "src/waiting/lock.rs",
            from: "in_line: waiting(context, key.name()) > 0",
            to: "in_line: false",
        }],
    },
    Mutant {
        name: "the queue goes on behind one who has no room",
        shown_by: "dying-waiters",
        edits: &[Edit {
            file: "crates/core/src/sharing/line.rs",
            from: "    let first = queues.first(database, key)?;
",
            to: "    let mut line = queues.iter(database, key);
    let (first, _) =
        line.find(|(_, waiter)| Holders::has_room(holders, waiter.limit, max_holders))?;
",
        }],
    },
    Mutant {
        name: "a share whose lease has ended stays",
        shown_by: "aof-always",
        edits: &[Edit {
            file: "src/waiting/ended.rs",
            from: "    let transition = holders.expire(now);
",
            to: "    let transition = Transition::Keep;
",
        }],
    },
    Mutant {
        name: "the end of one lease ends all",
        shown_by: "aof-always",
        edits: &[Edit {
            file: "crates/core/src/sharing/holders.rs",
            from: "        if left == 0 {
",
            to: "        if left < self.shares.count() {
",
        }],
    },
    Mutant {
        name: "a release of one share frees the lock",
        shown_by: "aof-always",
        edits: &[Edit {
            file: "crates/core/src/sharing/holders.rs",
            from: "            Some(latest) => self.change(Step::Remove(token), self.shares.count() - 1, latest),",
            to: "            Some(_) => Transition::Free,",
        }],
    },
    Mutant {
        name: "the share of a caller who is gone stays",
        shown_by: "dying-waiters",
        edits: &[Edit {
            file: "crates/core/src/pending_grants.rs",
            from: "                let share = shared.shares.with(token)?;
",
            to: "                let share = shared.shares.with(token).filter(|_| false)?;
",
        }],
    },
    Mutant {
        name: "who holds it with others gets it alone",
        shown_by: "aof-always",
        edits: &[Edit {
            file: "crates/core/src/sharing/rules.rs",
            from: "    } else if wanted.bears(shared.shares.count()) {
",
            to: "    } else if true {
",
        }],
    },
    Mutant {
        name: "a narrower limit is forgotten",
        shown_by: "aof-always",
        edits: &[Edit {
            file: "crates/core/src/sharing/rules.rs",
            from: "        Ok(wanted)
",
            to: "        Ok(present)
",
        }],
    },
    Mutant {
        name: "a limit does not reach the replica",
        shown_by: "failover",
        edits: &[Edit {
            file: "crates/core/src/sharing/effect.rs",
            from: "length += share.write(&mut buffer.0[length..]),",
            to: "{
                let share = Share { limit: crate::Limit::NONE, ..*share };
                length += share.write(&mut buffer.0[length..]);
            }",
        }],
    },
    Mutant {
        name: "a share that goes does not reach the replica",
        shown_by: "failover",
        edits: &[Edit {
            file: "src/locks/lock_key.rs",
            from: "        effect::replicate(context, name, change.effect(seen, &mut buffer));\n        Ok(())",
            to: "        if !matches!(change.step, Step::Remove(_)) {\n            effect::replicate(context, name, change.effect(seen, &mut buffer));\n        }\n        Ok(())",
        }],
    },
    Mutant {
        name: "a lock that moves loses its limits",
        shown_by: "cluster-slots",
        edits: &[Edit {
            file: "src/locks/redis_lock.rs",
            from: "                    out.number(fields.limit);
",
            to: "                    out.number(0);
",
        }],
    },
    Mutant {
        name: "any token passes the fence of a share",
        shown_by: "aof-always",
        edits: &[Edit {
            file: "crates/core/src/sharing/rules.rs",
            from: "            _ => Err(Refusal::Fenced),
        },
    }
}",
            to: "            _ => Ok(()),
        },
    }
}",
        }],
    },
];
