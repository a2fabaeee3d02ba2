//! `LOCK.HOLDERS key [COUNT n]`

use redis_lock_core::parse;

use super::holder::{holder_numbers, id_or_none, reply_fields, reply_number};
use super::{documented, key_and_words};
use crate::locks::{CommandError, answer, now};
use crate::server::{Command, Context, KeyUse, Spec, Text};
use crate::sessions;
use crate::waiting;

pub(super) struct HoldersOf;

impl Command for HoldersOf {
    const SPEC: Spec = Spec {
        name: c"lock.holders",
        flags: c"readonly",
        categories: c"read slow",
        arity: -2,
        summary: c"Returns the holders of a lock with their grants, lowest token first.",
        complexity: c"O(N), where N is the number of holders returned",
        since: c"0.3.0",
        history: &[],
        key: Some(KeyUse::Read),
        arguments: || documented(parse::COUNT),
    };

    fn run<'call>(context: Context<'call>, arguments: &'call [Text<'call>]) {
        answer(context, holders(context, arguments));
    }
}

fn holders<'call>(
    context: Context<'call>,
    arguments: &'call [Text<'call>],
) -> Result<(), CommandError> {
    let (name, mut words) = key_and_words(arguments)?;
    let max = parse::count(&mut words)?.unwrap_or(usize::MAX);
    let lock = waiting::open_for_read(context, name);
    let now = now(context);
    let Some(holders) = lock.holders(now)? else {
        context.reply_array(0);
        return Ok(());
    };
    context.reply_array(holders.live_count(now).min(max));
    for holder in holders.live(now).take(max) {
        context.reply_map(8);
        reply_fields(context, holder.owner, &holder_numbers(&holder, now));
        reply_number(context, b"limit", i64::from(holder.limit.number()));
        let session = sessions::of_grant(context, name, holder.grant.token);
        reply_number(context, b"session", id_or_none(session));
    }
    Ok(())
}
