//! `LOCK.INFO key`

use super::holder::{holder_numbers, integer, reply_fields, reply_number};
use super::{SINCE, key_and_words};
use crate::locks::{CommandError, answer, now};
use crate::server::{Command, Context, KeyUse, Spec, Text};
use crate::waiting;

pub(super) struct Info;

impl Command for Info {
    const SPEC: Spec = Spec {
        name: c"lock.info",
        flags: c"readonly fast",
        categories: c"read fast",
        arity: 2,
        summary:
            c"Returns the holder of a lock, its grant, the time left, and the number of waiters.",
        complexity: c"O(1) for a lock with one holder, O(log(N)) for one with N, and O(N) if expired leases must be removed",
        since: SINCE,
        history: &[(c"0.3.0", c"Added the holders and limit fields.")],
        key: Some(KeyUse::Read),
        arguments: Vec::new,
    };

    fn run<'call>(context: Context<'call>, arguments: &'call [Text<'call>]) {
        answer(context, info(context, arguments));
    }
}

fn info<'call>(
    context: Context<'call>,
    arguments: &'call [Text<'call>],
) -> Result<(), CommandError> {
    let (name, _) = key_and_words(arguments)?;
    let lock = waiting::open_for_read(context, name);
    let now = now(context);
    let holders = lock.holders(now)?;
    let first = holders
        .as_ref()
        .and_then(|holders| holders.live(now).next());
    match (holders, first) {
        (Some(holders), Some(first)) => {
            let numbers = holder_numbers(&first, now);
            let waiters = waiting::waiting(context, name);
            let limit = holders.live_least_limit(now).number();
            context.reply_map(9);
            reply_fields(context, first.owner, &numbers);
            reply_number(context, b"waiters", integer(waiters));
            reply_number(context, b"holders", integer(holders.live_count(now)));
            reply_number(context, b"limit", i64::from(limit));
        }
        _ => context.reply_null(),
    }
    Ok(())
}
