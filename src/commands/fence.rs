//! `LOCK.FENCE key [token]`

use redis_lock_core::{Holders, Token, UnixTime, parse};

use super::{SINCE, documented, key_and_words};
use crate::locks::{CommandError, Primary, answer, now};
use crate::server::{Command, Context, KeyUse, Spec, Text};
use crate::statistics::{Counter, count};
use crate::waiting;

pub(super) struct Fence;

impl Command for Fence {
    const SPEC: Spec = Spec {
        name: c"lock.fence",
        // The command changes nothing. The flag keeps clients from sending it to a replica, which may not know the
        // current grant.
        flags: c"write fast",
        categories: c"write fast",
        arity: -2,
        summary: c"Checks that a fencing token is that of the current grant, or returns the current grant's token.",
        complexity: c"O(1) for a lock with one holder, O(log(N)) for one with N",
        since: SINCE,
        history: &[],
        key: Some(KeyUse::Read),
        arguments: || documented(parse::FENCE),
    };

    fn run<'call>(context: Context<'call>, arguments: &'call [Text<'call>]) {
        answer(context, fence(context, arguments));
    }
}

fn fence<'call>(
    context: Context<'call>,
    arguments: &'call [Text<'call>],
) -> Result<(), CommandError> {
    let primary = Primary::check(context)?;
    let (name, mut words) = key_and_words(arguments)?;
    let token = parse::fence(&mut words)?;
    let lock = waiting::view(primary, name);
    let now = now(context);
    let holders = lock.holders(now)?;
    match (token, lowest_token(holders.as_ref(), now)) {
        (Some(token), _) => {
            count(Counter::FenceChecks);
            redis_lock_core::fence(holders.as_ref(), token, now)
                .inspect_err(|_| count(Counter::FencedRefusals))?;
            context.reply_status(c"OK");
        }
        (None, Some(token)) => context.reply_integer(token.number().cast_signed()),
        (None, None) => context.reply_null(),
    }
    Ok(())
}

fn lowest_token(holders: Option<&Holders<'_>>, now: UnixTime) -> Option<Token> {
    let holder = holders?.live(now).next()?;
    Some(holder.grant.token)
}
