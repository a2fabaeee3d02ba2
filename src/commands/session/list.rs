//! `LOCK.SESSION LIST [COUNT n]`

use std::time::Duration;

use redis_lock_core::parse;
use redis_lock_core::sessions::SessionInfo;

use super::{CONTAINER, words};
use crate::commands::documented;
use crate::commands::holder::{integer, reply_number};
use crate::locks::{CommandError, answer};
use crate::server::{Command, Context, Spec, Text};
use crate::{sessions, waiting};

pub(super) struct List;

impl Command for List {
    const SPEC: Spec = Spec {
        name: c"lock.session|list",
        flags: c"readonly admin",
        categories: c"read slow admin dangerous",
        arity: -2,
        summary: c"Returns the open sessions, oldest first.",
        complexity: c"O(N*log(N)) for N sessions",
        arguments: || documented(parse::COUNT),
        ..CONTAINER
    };

    fn run<'call>(context: Context<'call>, arguments: &'call [Text<'call>]) {
        answer(context, list(context, arguments));
    }
}

fn list<'call>(
    context: Context<'call>,
    arguments: &'call [Text<'call>],
) -> Result<(), CommandError> {
    let max = parse::count(&mut words(arguments)?)?;
    let list = sessions::list(context, max.unwrap_or(usize::MAX));
    context.reply_array(list.len());
    for session in &list {
        reply(context, session);
    }
    Ok(())
}

fn reply(context: Context<'_>, session: &SessionInfo) {
    let millis = |length: Duration| i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
    let text = |name: &[u8], text: &[u8]| {
        context.reply_bytes(name);
        context.reply_bytes(text);
    };
    context.reply_map(11);
    reply_number(context, b"id", session.id.number().cast_signed());
    text(b"name", &session.name);
    reply_number(context, b"client-id", session.client_id.cast_signed());
    text(b"user", &session.user);
    reply_number(context, b"db", i64::from(session.database));
    let timeout_ms = session.timeout.millis().cast_signed();
    reply_number(context, b"timeout-ms", timeout_ms);
    reply_number(context, b"idle-ms", millis(session.idle));
    reply_number(context, b"age-ms", millis(session.age));
    reply_number(context, b"grants", integer(session.grants));
    let waiting = waiting::waiting_of(context, session.id);
    reply_number(context, b"waiting", integer(waiting));
    reply_number(context, b"events", integer(session.events));
}
