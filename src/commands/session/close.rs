//! `LOCK.SESSION CLOSE id` and `LOCK.SESSION KILL id`

use redis_lock_core::parse;
use redis_lock_core::sessions::SessionId;

use super::{CONTAINER, words};
use crate::commands::documented;
use crate::commands::holder::integer;
use crate::locks::{CommandError, Primary, answer};
use crate::server::{Command, Context, Spec, Text};
use crate::sessions;

pub(super) struct Close;

impl Command for Close {
    const SPEC: Spec = Spec {
        name: c"lock.session|close",
        flags: c"write",
        categories: c"write slow",
        arity: 3,
        summary: c"Ends a session and releases its grants. Returns how many.",
        complexity: c"O(N*log(N)) for N grants of the session, of which up to 100 are released before the reply",
        arguments: || documented(parse::SESSION_ID),
        ..CONTAINER
    };

    fn run<'call>(context: Context<'call>, arguments: &'call [Text<'call>]) {
        answer(context, close(context, arguments, sessions::check_known));
    }
}

pub(super) struct Kill;

impl Command for Kill {
    const SPEC: Spec = Spec {
        name: c"lock.session|kill",
        flags: c"write admin",
        categories: c"write slow admin dangerous",
        summary: c"Ends a session of any user, and releases its grants. Returns how many.",
        ..Close::SPEC
    };

    fn run<'call>(context: Context<'call>, arguments: &'call [Text<'call>]) {
        answer(context, close(context, arguments, sessions::check_open));
    }
}

fn close<'call>(
    context: Context<'call>,
    arguments: &'call [Text<'call>],
    check: fn(Context<'_>, SessionId) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    Primary::check(context)?;
    let id = parse::session_id(&mut words(arguments)?)?;
    check(context, id)?;
    let released = sessions::close(context, id)?;
    context.reply_integer(integer(released));
    Ok(())
}
