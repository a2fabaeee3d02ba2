//! `LOCK.ACQUIRE key owner|* [SHARED | LIMIT n] [PX ms | EX s] [BLOCK ms | QUEUE ms]
//! [SESSION id] [HOLDS n] [TOKEN token]`

use std::time::Duration;

use redis_lock_core::Limit;
use redis_lock_core::parse::{self, Wait};
use redis_lock_core::sessions::SessionId;

use super::holder::integer;
use super::session::check_session;
use super::{MAX_WATCHED_NAME, SINCE, documented, key_and_words};
use crate::locks::{CommandError, Primary, answer_owner, random_owner, reply_grant};
use crate::server::{Command, Context, KeyUse, Spec, Text};
use crate::sessions;
use crate::statistics::{Counter, count};
use crate::waiting::{self, Lock, WaitOptions};

pub(super) struct Acquire;

impl Command for Acquire {
    const SPEC: Spec = Spec {
        name: c"lock.acquire",
        flags: c"write deny-oom fast blocking",
        categories: c"write fast blocking",
        arity: -3,
        summary: c"Acquires a lock, or re-enters one that the owner holds, and returns the grant with its fencing token.",
        complexity: c"O(1) for a lock with one holder, O(log(N)) for one with N, plus the grants and removals that it causes",
        since: SINCE,
        history: &[(
            c"0.3.0",
            c"Added the SHARED, LIMIT, QUEUE and SESSION options.",
        )],
        key: Some(KeyUse::Update),
        arguments: || documented(parse::ACQUIRE),
    };

    fn run<'call>(context: Context<'call>, arguments: &'call [Text<'call>]) {
        answer_owner(context, acquire(context, arguments));
    }
}

fn acquire<'call>(
    context: Context<'call>,
    arguments: &'call [Text<'call>],
) -> Result<(), CommandError> {
    waiting::forget_sent(context);
    let primary = Primary::check(context)?;
    let (name, mut words) = key_and_words(arguments)?;
    let call = parse::acquire(&mut words)?;
    if call.wait.is_some() && name.bytes().len() > MAX_WATCHED_NAME {
        return Err(CommandError::argument(
            c"ERR with BLOCK or QUEUE the name of the lock must be at most 8192 bytes long",
        ));
    }
    if let Some(session) = call.session {
        check_caller(context, name, session, call.wait)?;
    }
    let random = call.owner.is_none().then(|| random_owner(context));
    let owner = call
        .owner
        .or_else(|| random.as_ref()?.owner())
        .ok_or(CommandError::argument(
            c"ERR no random owner could be generated",
        ))?;
    let request = redis_lock_core::Acquire {
        owner,
        limit: call.limit.unwrap_or(Limit::ONE),
        lease: call.lease,
        holds: call.holds,
        token: call.token,
    };
    let lock = Lock::open(primary, name);
    let lock = match call.repeats() {
        None => lock,
        Some(repeats) => match lock.unless_in_line(owner, repeats) {
            Ok(lock) => lock,
            Err(place) => {
                context.reply_integer(integer(place));
                return Ok(());
            }
        },
    };
    match lock.acquire(&request, call.session)? {
        Some(holder) => {
            let limit = call.limit.map(|_| holder.limit);
            reply_grant(context, owner, holder.grant, limit);
            Ok(())
        }
        None => wait(context, name, &request, &call),
    }
}

/// Checks that the caller may name this session, and may use `BLOCK` if it does.
#[inline(never)]
fn check_caller(
    context: Context<'_>,
    name: Text<'_>,
    session: SessionId,
    wait: Option<Wait>,
) -> Result<(), CommandError> {
    check_session(context, name, session)?;
    if matches!(wait, Some(Wait::Block(_))) {
        sessions::check_may_block(context, session)?;
    }
    Ok(())
}

/// Lets a call wait that cannot be granted now. Replies nil if it may not wait.
#[inline(never)]
fn wait(
    context: Context<'_>,
    name: Text<'_>,
    request: &redis_lock_core::Acquire<'_>,
    call: &parse::Acquire<'_>,
) -> Result<(), CommandError> {
    let (is_queued, wait_ms) = match call.wait {
        Some(Wait::Queue(ms)) => (true, ms),
        Some(Wait::Block(ms)) if context.flags().may_block() => (false, ms),
        Some(Wait::Block(_)) | None => {
            count(Counter::Refusals);
            context.reply_null();
            return Ok(());
        }
    };
    let options = WaitOptions {
        is_queued,
        longest: (wait_ms > 0).then(|| Duration::from_millis(wait_ms)),
        names_limit: call.limit.is_some(),
        session: call.session,
    };
    let place = waiting::join(context, name, request, &options)?;
    if is_queued {
        context.reply_integer(integer(place));
    }
    Ok(())
}
