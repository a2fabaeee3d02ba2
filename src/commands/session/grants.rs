//! `LOCK.SESSION GRANTS id [COUNT n]`

use std::iter;

use redis_lock_core::parse;
use redis_lock_core::sessions::{GrantPlace, SessionGrant};

use super::{CONTAINER, words};
use crate::commands::documented;
use crate::commands::holder::{holder_numbers, reply_number};
use crate::locks::{CommandError, LockView, Primary, answer, now};
use crate::server::{Command, Context, KeyUse, OwnedText, Rights, Spec, Text};
use crate::sessions;

/// The keyword before the key when the module asks the server whether the caller may use the command with that key.
const KEYWORD: &str = "KEY";

pub(super) struct Grants;

impl Command for Grants {
    const SPEC: Spec = Spec {
        name: c"lock.session|grants",
        flags: c"",
        categories: c"read slow",
        arity: -3,
        summary: c"Returns the grants of a session, of the keys that the caller may read.",
        complexity: c"O(N*log(M)) for N grants that it returns, of M that the session has",
        key: Some(KeyUse::ReadUnnamed(c"KEY")),
        arguments: || documented(parse::SESSION_GRANTS),
        ..CONTAINER
    };

    fn run<'call>(context: Context<'call>, arguments: &'call [Text<'call>]) {
        answer(context, grants(context, arguments));
    }
}

fn grants<'call>(
    context: Context<'call>,
    arguments: &'call [Text<'call>],
) -> Result<(), CommandError> {
    Primary::check(context)?;
    let (id, max) = parse::session_grants(&mut words(arguments)?)?;
    sessions::check_open(context, id)?;
    let rights = Rights::of_caller(context).ok_or(CommandError::NoClient)?;
    let database = context.database();
    let mut place = GrantPlace::default();
    let found: Vec<_> = iter::from_fn(|| sessions::next_grant(context, id, &mut place))
        .filter_map(|grant| Some((visible(context, &rights, &grant)?, grant)))
        .take(max.unwrap_or(usize::MAX))
        .collect();
    context.select_database(database);
    context.reply_array(found.len());
    for ((holds, ttl_ms), grant) in &found {
        context.reply_map(5);
        for (name, text) in [
            (&b"key"[..], &*grant.lock_id.key),
            (b"owner", grant.owner.as_owner().bytes()),
        ] {
            context.reply_bytes(name);
            context.reply_bytes(text);
        }
        let token = grant.token.number().cast_signed();
        reply_number(context, b"token", token);
        reply_number(context, b"holds", *holds);
        reply_number(context, b"ttl-ms", *ttl_ms);
    }
    Ok(())
}

/// The hold count of a grant and the time left of its lease, if the grant still exists and the caller may see it.
fn visible(context: Context<'_>, rights: &Rights, grant: &SessionGrant) -> Option<(i64, i64)> {
    let words = ["lock.session", "grants", KEYWORD].map(|word| OwnedText::new(word.as_bytes()));
    let name = OwnedText::new(&grant.lock_id.key);
    let [command, subcommand, keyword] = &words;
    let call = [command, subcommand, keyword, &name].map(OwnedText::text);
    if !context.select_database(grant.lock_id.database) || !rights.allow(context, &call) {
        return None;
    }
    let view = LockView::open(context, name.text());
    let now = now(context);
    let holders = view.holders(now).ok()??;
    let holder = holders.find_token(grant.token)?;
    let [_, (_, holds), _, (_, ttl_ms), _] = holder_numbers(&holder, now);
    Some((holds, ttl_ms))
}
