//! `LOCK.INFO key`

use redis_lock_core::{Deadline, Held, UnixTime};

use super::{SINCE, key_and_words};
use crate::locks::{CommandError, LockView, answer, now};
use crate::server::{Command, Context, KeyUse, Spec, Text};
use crate::waiting;

const NO_DEADLINE: i64 = -1;

pub(super) struct Info;

impl Command for Info {
    const SPEC: Spec = Spec {
        name: c"lock.info",
        flags: c"readonly fast",
        categories: c"read fast",
        arity: 2,
        summary:
            c"Returns who holds a lock, by which grant, for how long, and how many wait for it.",
        complexity: c"O(1)",
        since: SINCE,
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
    let key = LockView::open(context, name);
    match key.held()? {
        Some(held) => reply(
            context,
            &held,
            now(context),
            waiting::waiting(context, name),
        ),
        None => context.reply_null(),
    }
    Ok(())
}

fn reply(context: Context<'_>, held: &Held<'_>, now: UnixTime, waiters: usize) {
    let grant = held.grant;
    let ttl_ms = match held.deadline {
        Deadline::At(at) => at.saturating_sub(now.millis()).cast_signed(),
        Deadline::Never => NO_DEADLINE,
    };
    let held_ms = now.micros().saturating_sub(grant.token.number()) / 1000;
    context.reply_map(7);
    context.reply_bytes(b"owner");
    context.reply_bytes(held.owner.bytes());
    let numbers = [
        (&b"token"[..], grant.token.number().cast_signed()),
        (b"holds", i64::from(grant.holds.number())),
        (b"lease-ms", grant.lease.millis().cast_signed()),
        (b"ttl-ms", ttl_ms),
        (b"held-ms", held_ms.cast_signed()),
        (b"waiters", i64::try_from(waiters).unwrap_or(i64::MAX)),
    ];
    for (name, number) in numbers {
        context.reply_bytes(name);
        context.reply_integer(number);
    }
}
