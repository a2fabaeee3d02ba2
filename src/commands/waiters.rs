//! `LOCK.WAITERS key [COUNT n]`

use std::time::Duration;

use redis_lock_core::parse;
use redis_lock_core::{Monotonic, Waiter};

use super::holder::id_or_none;
use super::{SINCE, documented, key_and_words};
use crate::locks::{CommandError, answer, monotonic};
use crate::server::{Command, Context, KeyUse, Spec, Text};
use crate::waiting;

const NO_TIMEOUT: i64 = -1;

pub(super) struct Waiters;

impl Command for Waiters {
    const SPEC: Spec = Spec {
        name: c"lock.waiters",
        flags: c"readonly",
        categories: c"read",
        arity: -2,
        summary: c"Returns the calls that wait for a lock, in the order of the queue.",
        complexity: c"O(N), where N is the number of calls returned",
        since: SINCE,
        history: &[(c"0.3.0", c"Added the limit and session fields.")],
        key: Some(KeyUse::Read),
        arguments: || documented(parse::COUNT),
    };

    fn run<'call>(context: Context<'call>, arguments: &'call [Text<'call>]) {
        answer(context, waiters(context, arguments));
    }
}

fn waiters<'call>(
    context: Context<'call>,
    arguments: &'call [Text<'call>],
) -> Result<(), CommandError> {
    let (name, mut words) = key_and_words(arguments)?;
    let count = parse::count(&mut words)?;
    // Open the key only to check its type.
    waiting::open_for_read(context, name).check_type()?;
    let waiters = waiting::waiters(context, name, count.unwrap_or(usize::MAX));
    context.reply_array(waiters.len());
    let now = monotonic();
    for waiter in &waiters {
        reply(context, waiter, now);
    }
    Ok(())
}

fn reply(context: Context<'_>, waiter: &Waiter, now: Monotonic) {
    let millis = |length: Duration| i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
    let waited_ms = millis(now.since(waiter.since));
    let left_ms = waiter.until.map_or(NO_TIMEOUT, |until| {
        (millis(until.since(waiter.since)) - waited_ms).max(0)
    });
    context.reply_map(6);
    context.reply_bytes(b"owner");
    context.reply_bytes(waiter.owner.as_owner().bytes());
    let numbers = [
        (
            &b"client-id"[..],
            waiting::client_of(context, waiter).cast_signed(),
        ),
        (b"waited-ms", waited_ms),
        (b"left-ms", left_ms),
        (b"limit", i64::from(waiter.limit.number())),
        (b"session", id_or_none(waiter.session)),
    ];
    for (name, number) in numbers {
        context.reply_bytes(name);
        context.reply_integer(number);
    }
}
