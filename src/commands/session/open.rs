//! `LOCK.SESSION OPEN [TIMEOUT ms] [NAME name]`

use redis_lock_core::parse;

use super::{CONTAINER, words};
use crate::commands::documented;
use crate::locks::{CommandError, Primary, answer};
use crate::server::{Command, Context, Spec, Text};
use crate::sessions;

pub(super) struct Open;

impl Command for Open {
    const SPEC: Spec = Spec {
        name: c"lock.session|open",
        flags: c"fast",
        categories: c"fast",
        arity: -2,
        summary: c"Opens a session, which renews its grants for as long as the program polls it. Returns its id.",
        complexity: c"O(log(N)) for N sessions",
        arguments: || documented(parse::SESSION_OPEN),
        ..CONTAINER
    };

    fn run<'call>(context: Context<'call>, arguments: &'call [Text<'call>]) {
        answer(context, open(context, arguments));
    }
}

fn open<'call>(
    context: Context<'call>,
    arguments: &'call [Text<'call>],
) -> Result<(), CommandError> {
    Primary::check(context)?;
    let call = parse::session_open(&mut words(arguments)?)?;
    let id = sessions::open(context, call.timeout, call.name)?;
    context.reply_integer(id.number().cast_signed());
    Ok(())
}
