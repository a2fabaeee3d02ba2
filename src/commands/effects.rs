//! The internal commands.
//!
//! `LOCK._APPLY` and `LOCK._CLOCK` are for the replication stream and the append-only file. A user with the rights of
//! `RESTORE` may run them too, because `RESTORE` can do as much. The module uses `LOCK._PROBE` to ask the server
//! whether it would allow a write.

use std::borrow::Cow;
use std::ffi::CString;

use redis_lock_core::{EffectError, Mismatch, parse};

use super::{SINCE, documented, in_order, key_and_words};
use crate::locks::{self, CommandError, Primary, answer, observe_token};
use crate::server::{self, Command, Context, KeyUse, OwnedText, Permission, Spec, Text};
use crate::sessions;

pub(super) struct Apply;

impl Command for Apply {
    const SPEC: Spec = Spec {
        name: locks::APPLY,
        flags: c"write fast",
        categories: c"write fast admin dangerous",
        arity: -3,
        summary: c"An internal command for replicating the state of a lock.",
        complexity: c"O(1) for a lock with one holder, O(log(N)) for one with N",
        since: SINCE,
        history: &[],
        key: Some(KeyUse::Overwrite),
        arguments: || documented(parse::EFFECT),
    };

    fn run<'call>(context: Context<'call>, arguments: &'call [Text<'call>]) {
        answer(context, apply(context, arguments));
    }
}

pub(super) struct Clock;

impl Command for Clock {
    const SPEC: Spec = Spec {
        name: locks::CLOCK,
        flags: c"write fast",
        categories: c"write fast admin dangerous",
        arity: -2,
        summary: c"An internal command for replicating the token clock.",
        complexity: c"O(1)",
        since: SINCE,
        history: &[],
        key: None,
        arguments: || documented(parse::CLOCK),
    };

    fn run<'call>(context: Context<'call>, arguments: &'call [Text<'call>]) {
        answer(context, clock(context, arguments));
    }
}

pub(super) struct Probe;

impl Command for Probe {
    const SPEC: Spec = Spec {
        name: locks::PROBE,
        flags: c"write fast no-monitor",
        categories: c"write fast admin dangerous",
        arity: 2,
        summary:
            c"An internal command that does nothing, for asking whether a write would be accepted.",
        complexity: c"O(1)",
        since: SINCE,
        history: &[],
        key: Some(KeyUse::Update),
        arguments: Vec::new,
    };

    fn run<'call>(context: Context<'call>, _arguments: &'call [Text<'call>]) {
        answer(context, probe(context));
    }
}

fn probe(context: Context<'_>) -> Result<(), CommandError> {
    Primary::check(context)?;
    context.reply_status(c"OK");
    Ok(())
}

fn apply<'call>(
    context: Context<'call>,
    arguments: &'call [Text<'call>],
) -> Result<(), CommandError> {
    let (key, mut words) = key_and_words(arguments)?;
    check_source(context, key)?;
    let (change, is_quiet) =
        parse::effect(&mut words).map_err(|error| refuse(context, key, error))?;
    let applied = locks::apply(context, key, &change, is_quiet);
    // Record the token even if this server refuses the effect, because the primary has granted the token.
    if let Some(token) = change.token()
        && (applied.is_ok() || context.is_from_stream())
    {
        observe_token(token);
    }
    applied.map_err(|Mismatch| refuse(context, key, EffectError::Mismatch))?;
    if !context.is_from_stream() {
        sessions::lock_overwritten(context, key);
    }
    context.replicate_verbatim();
    context.reply_status(c"OK");
    Ok(())
}

/// Refuses an effect. In a stream or a file nobody sees the error, so the lock is removed, because it is outdated now.
#[cold]
fn refuse(context: Context<'_>, key: Text<'_>, error: EffectError) -> CommandError {
    if context.is_from_stream() {
        if let EffectError::Version(_, Some(token)) = error {
            observe_token(token);
        }
        server::warn(&format!(
            "error: the lock '{}' is removed: {error}",
            key.bytes().escape_ascii()
        ));
        locks::remove(context, key);
    }
    let text = CString::new(format!("ERR {error}")).unwrap_or_default();
    CommandError::Argument(Cow::Owned(text))
}

fn clock<'call>(
    context: Context<'call>,
    arguments: &'call [Text<'call>],
) -> Result<(), CommandError> {
    let [_name, words @ ..] = arguments else {
        return Err(CommandError::argument(c"ERR wrong number of arguments"));
    };
    // The command has no key, so check the permission for the empty key.
    check_source(context, OwnedText::new(b"").text())?;
    let token = parse::clock(&mut in_order(words))?;
    observe_token(token);
    context.replicate_verbatim();
    context.reply_status(c"OK");
    Ok(())
}

/// Allows commands from the primary and from a file. A user needs the permission to `RESTORE` the key.
fn check_source(context: Context<'_>, key: Text<'_>) -> Result<(), CommandError> {
    if context.is_from_stream() {
        return Ok(());
    }
    Primary::check(context)?;
    match context.may_restore(key) {
        Permission::Granted => Ok(()),
        Permission::Denied => Err(CommandError::NotPermitted),
    }
}
