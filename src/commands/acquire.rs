//! `LOCK.ACQUIRE key owner|* [PX ms | EX s] [BLOCK ms] [HOLDS n] [TOKEN token]`

use std::time::Duration;

use redis_lock_core::requests;
use redis_lock_core::{self as core, Acquired, Owner};

use super::{SINCE, key_and_words};
use crate::locks::{
    CommandError, KeyspaceEvent, LockKey, RandomOwner, answer_owner, now, random_owner,
    refuse_on_replica, reply_grant, rules, with_token_clock,
};
use crate::server::{ArgKind, Argument, Command, Context, KeyUse, Spec, Text};
use crate::statistics::{Counter, count};
use crate::waiting::{self, Caller};

/// The longest name, in bytes, of a lock that may be waited for. Such a lock is looked at every few
/// milliseconds, and the server alone reads its name twice for each look.
const MAX_AWAITED_NAME: usize = 8192;

pub(super) struct Acquire;

impl Command for Acquire {
    const SPEC: Spec = Spec {
        name: c"lock.acquire",
        flags: c"write deny-oom fast blocking",
        categories: c"write fast blocking",
        arity: -3,
        summary: c"Acquires a lock, or re-enters one that the owner holds, and returns the grant with its fencing token.",
        complexity: c"O(1)",
        since: SINCE,
        key: Some(KeyUse::Update),
        arguments: &[
            Argument::new(c"key", ArgKind::Key),
            Argument::new(
                c"owner",
                ArgKind::OneOf(&[
                    Argument::new(c"owner", ArgKind::String),
                    Argument::after(c"*", c"random-owner", ArgKind::Flag),
                ]),
            ),
            LEASE,
            Argument::after(c"BLOCK", c"wait-milliseconds", ArgKind::Integer).optional(),
            Argument::after(c"HOLDS", c"holds", ArgKind::Integer).optional(),
            Argument::after(c"TOKEN", c"token", ArgKind::Integer).optional(),
        ],
    };

    fn run<'call>(context: Context<'call>, arguments: &'call [Text<'call>]) {
        answer_owner(context, acquire(context, arguments));
    }
}

/// `[PX milliseconds | EX seconds]`, here and in `LOCK.RENEW`.
pub(super) const LEASE: Argument = Argument::new(
    c"lease",
    ArgKind::OneOf(&[
        Argument::after(c"PX", c"milliseconds", ArgKind::Integer),
        Argument::after(c"EX", c"seconds", ArgKind::Integer),
    ]),
)
.optional();

fn acquire<'call>(
    context: Context<'call>,
    arguments: &'call [Text<'call>],
) -> Result<(), CommandError> {
    waiting::forget_unconfirmed(context);
    refuse_on_replica(context)?;
    let (name, mut words) = key_and_words(arguments)?;
    let request = requests::acquire(&mut words)?;
    if request.wait_ms.is_some() && name.bytes().len() > MAX_AWAITED_NAME {
        return Err(CommandError::argument(
            c"ERR BLOCK takes a lock whose name is at most 8192 bytes long",
        ));
    }
    if let Some(owner) = request.owner {
        return acquire_as(context, name, owner, &request);
    }
    let random: RandomOwner = random_owner(context);
    let owner = random
        .owner()
        .ok_or(CommandError::argument(c"ERR no owner could be made"))?;
    acquire_as(context, name, owner, &request)
}

fn acquire_as<'call>(
    context: Context<'call>,
    name: Text<'call>,
    owner: Owner<'_>,
    options: &requests::Acquire<'_>,
) -> Result<(), CommandError> {
    let request = core::Acquire {
        owner,
        lease: options.lease,
        holds: options.holds,
        token: options.token,
    };
    waiting::settle(context, name);
    let mut key = LockKey::open(context, name);
    if key.record()?.is_none() && waiting::waiting(context, name) > 0 {
        // Nobody slips past the queue.
        drop(key);
        waiting::serve(context, name, Caller::Command);
        key = LockKey::open(context, name);
    }
    let held = key.held()?;
    let acquired = with_token_clock(|clock| {
        let (rules, now) = (rules(), now(context));
        if held.is_none() && waiting::waiting(context, name) > 0 {
            // Nothing may be granted to those in the queue now, and so not to this call either.
            core::acquire(None, &request, &rules, now, &mut clock.clone()).map(|_| Acquired::Busy)
        } else {
            core::acquire(held.as_ref(), &request, &rules, now, clock)
        }
    })?;
    match acquired {
        Acquired::New(..) => count(Counter::Grants),
        Acquired::Again(..) => count(Counter::Reentries),
        Acquired::Busy => {}
    }
    match acquired {
        Acquired::New(grant, change) | Acquired::Again(grant, change) => {
            // First: whoever hears of the change may free the lock, and the next grant is not answered.
            waiting::answered(context, name);
            key.change(owner, change, KeyspaceEvent::Acquire);
            reply_grant(context, owner, grant);
        }
        Acquired::Busy => match options.wait_ms {
            Some(wait_ms) if context.flags().may_block() => {
                drop(key);
                let wait = (wait_ms > 0).then(|| Duration::from_millis(wait_ms));
                waiting::join(context, name, &request, wait)?;
            }
            _ => {
                count(Counter::Refusals);
                context.reply_null();
            }
        },
    }
    Ok(())
}
