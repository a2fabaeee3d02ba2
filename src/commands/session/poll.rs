//! `LOCK.SESSION POLL id [BLOCK ms]`

use redis_lock_core::parse;

use super::{CONTAINER, words};
use crate::commands::documented;
use crate::locks::{CommandError, Primary, answer};
use crate::server::{Command, Context, Spec, Text};
use crate::sessions;

pub(super) struct Poll;

impl Command for Poll {
    const SPEC: Spec = Spec {
        name: c"lock.session|poll",
        flags: c"blocking",
        categories: c"slow blocking",
        arity: -3,
        summary: c"Returns the new events of a session and how long its grants are guaranteed, or waits for events.",
        complexity: c"O(log(N)) for N grants of the session, plus what it renews and returns",
        arguments: || documented(parse::SESSION_POLL),
        ..CONTAINER
    };

    fn run<'call>(context: Context<'call>, arguments: &'call [Text<'call>]) {
        answer(context, poll(context, arguments));
    }
}

fn poll<'call>(
    context: Context<'call>,
    arguments: &'call [Text<'call>],
) -> Result<(), CommandError> {
    Primary::check(context)?;
    let (id, wait_ms) = parse::session_poll(&mut words(arguments)?)?;
    if let Some(reply) = sessions::poll(context, id, wait_ms)? {
        sessions::write_reply(context, &reply);
    }
    Ok(())
}
