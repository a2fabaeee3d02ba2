//! `LOCK.RELEASE key owner [ALL | HOLDS n] [SESSION id] [TOKEN token]`

use redis_lock_core::parse;

use super::session::check_session_name;
use super::{SINCE, documented, key_and_words};
use crate::locks::{self, CommandError, Primary, answer_owner};
use crate::server::{Command, Context, KeyUse, Spec, Text};
use crate::waiting::{self, Lock};

pub(super) struct Release;

impl Command for Release {
    const SPEC: Spec = Spec {
        name: c"lock.release",
        flags: c"write fast",
        categories: c"write fast",
        arity: -3,
        summary:
            c"Releases holds of a lock. Returns how many are left; the last release frees the lock.",
        complexity: c"O(1) for a lock with one holder, O(log(N)) for one with N, plus the grants and removals that it causes",
        since: SINCE,
        history: &[(c"0.3.0", c"Added the SESSION option.")],
        key: Some(KeyUse::Delete),
        arguments: || documented(parse::RELEASE),
    };

    fn run<'call>(context: Context<'call>, arguments: &'call [Text<'call>]) {
        answer_owner(context, release(context, arguments));
    }
}

fn release<'call>(
    context: Context<'call>,
    arguments: &'call [Text<'call>],
) -> Result<(), CommandError> {
    let (name, mut words) = key_and_words(arguments)?;
    if context.is_from_stream() {
        release_from_stream(context, name);
        return Ok(());
    }
    let primary = Primary::check(context)?;
    let parse::Release { request, session } = parse::release(&mut words)?;
    if session.is_some() {
        check_session_name(name)?;
    }
    let holds_left = match Lock::open(primary, name).release(&request, session) {
        Ok(holder) => holder.map_or(0, |holder| holder.grant.holds.number()),
        Err(CommandError::Refused(_))
            if request.cancels_waits() && waiting::cancel(context, name, request.owner.bytes()) =>
        {
            0
        }
        Err(error) => return Err(error),
    };
    context.reply_integer(i64::from(holds_left));
    Ok(())
}

/// Frees the lock without a check, because the primary has checked the release, and replicates only one that frees the
/// lock.
#[inline(never)]
fn release_from_stream(context: Context<'_>, name: Text<'_>) {
    context.replicate_verbatim();
    locks::apply_release(context, name);
    context.reply_integer(0);
}
