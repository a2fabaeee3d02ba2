//! `LOCK.RELEASE key owner [ALL | HOLDS n] [TOKEN token]`

use redis_lock_core::requests;
use redis_lock_core::{self as core, Change, ReleaseAmount, Times};

use super::{SINCE, key_and_words};
use crate::locks::{CommandError, KeyspaceEvent, LockKey, answer_owner, now, refuse_on_replica};
use crate::server::{ArgKind, Argument, Command, Context, KeyUse, Spec, Text};
use crate::statistics::{Counter, count};
use crate::waiting;

pub(super) struct Release;

impl Command for Release {
    const SPEC: Spec = Spec {
        name: c"lock.release",
        flags: c"write fast",
        categories: c"write fast",
        arity: -3,
        summary:
            c"Gives back holds of a lock; the last one frees it. Returns the holds that are left.",
        complexity: c"O(1)",
        since: SINCE,
        key: Some(KeyUse::Delete),
        arguments: &[
            Argument::new(c"key", ArgKind::Key),
            Argument::new(c"owner", ArgKind::String),
            Argument::new(
                c"amount",
                ArgKind::OneOf(&[
                    Argument::after(c"ALL", c"all", ArgKind::Flag),
                    Argument::after(c"HOLDS", c"holds", ArgKind::Integer),
                ]),
            )
            .optional(),
            Argument::after(c"TOKEN", c"token", ArgKind::Integer).optional(),
        ],
    };

    fn run<'call>(context: Context<'call>, arguments: &'call [Text<'call>]) {
        answer_owner(context, release(context, arguments));
    }
}

fn release<'call>(
    context: Context<'call>,
    arguments: &'call [Text<'call>],
) -> Result<(), CommandError> {
    refuse_on_replica(context)?;
    let (name, mut words) = key_and_words(arguments)?;
    let request = requests::release(&mut words)?;
    waiting::settle(context, name);
    let key = LockKey::open(context, name);
    let times = || Times {
        now: now(context),
        deadline: key.deadline(),
    };
    let record = key.record()?;
    let released = match core::release(record, &request, times) {
        Ok(released) => released,
        Err(refusal) => {
            let cancels = request.amount == ReleaseAmount::All && request.token.is_none();
            if cancels && waiting::cancel(context, name, request.owner.bytes()) {
                context.reply_integer(0);
                return Ok(());
            }
            return Err(refusal.into());
        }
    };
    let token = record.map(|record| record.grant.token);
    if let (Change::Free, Some(token)) = (released.change, token) {
        waiting::hand_over(context, key, request.owner, token);
    } else {
        if released.change != Change::Keep {
            count(Counter::Releases);
        }
        waiting::answered(context, name);
        key.change(request.owner, released.change, KeyspaceEvent::Release);
    }
    context.reply_integer(i64::from(released.holds_left));
    Ok(())
}
