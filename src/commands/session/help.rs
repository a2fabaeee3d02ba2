//! `LOCK.SESSION HELP`

use super::CONTAINER;
use crate::server::{Command, Context, Spec, Text};

const LINES: &[&[u8]] = &[
    b"LOCK.SESSION <subcommand> [<arg> [value] ...]. Subcommands are:",
    b"OPEN [TIMEOUT <ms>] [NAME <name>] -- Open a session, which this connection polls at first. Returns its id.",
    b"POLL <id> [BLOCK <ms>] -- Return the new events of a session, or wait for them.",
    b"GRANTS <id> [COUNT <count>] -- Return the grants of a session.",
    b"CLOSE <id> -- End a session and release its grants.",
    b"LIST [COUNT <count>] -- Return the open sessions, oldest first.",
    b"KILL <id> -- End a session of any user and release its grants.",
    b"HELP -- Print this help.",
];

pub(super) struct Help;

impl Command for Help {
    const SPEC: Spec = Spec {
        name: c"lock.session|help",
        flags: c"fast allow-loading allow-stale",
        categories: c"slow",
        arity: 2,
        summary: c"Returns the subcommands and what they do.",
        complexity: c"O(1)",
        ..CONTAINER
    };

    fn run<'call>(context: Context<'call>, _arguments: &'call [Text<'call>]) {
        context.reply_array(LINES.len());
        for line in LINES {
            context.reply_bytes(line);
        }
    }
}
