//! `LOCK.HOTKEYS [COUNT n]`

use std::ffi::CStr;

use redis_lock_core::parse;

use super::{SINCE, documented, in_order};
use crate::locks::{CommandError, answer, monotonic};
use crate::server::{Command, Context, KeyUse, OwnedText, Rights, Spec, Text};
use crate::statistics::{self, KeyStats};
use crate::waiting;

const DEFAULT_COUNT: usize = 10;
/// The keyword before the key when the module asks the server whether the caller may use the command with that key.
const KEYWORD: &CStr = c"KEY";

pub(super) struct HotKeys;

impl Command for HotKeys {
    const SPEC: Spec = Spec {
        name: c"lock.hotkeys",
        // The command checks the rights of the calling client, and a script has no such client.
        flags: c"readonly deny-script",
        categories: c"read slow",
        arity: -1,
        summary: c"Returns the keys with the most waiting over the last five minutes, of those that the caller may use with this command.",
        complexity: c"O(N*log(N)), where N is the number of keys that are waited for now, plus at most 640",
        since: SINCE,
        history: &[],
        key: Some(KeyUse::ReadUnnamed(KEYWORD)),
        arguments: || documented(parse::COUNT),
    };

    fn run<'call>(context: Context<'call>, arguments: &'call [Text<'call>]) {
        answer(context, hot_keys(context, arguments));
    }
}

fn hot_keys<'call>(
    context: Context<'call>,
    arguments: &'call [Text<'call>],
) -> Result<(), CommandError> {
    let [_name, words @ ..] = arguments else {
        return Err(CommandError::argument(c"ERR wrong number of arguments"));
    };
    let count = parse::count(&mut in_order(words))?.unwrap_or(DEFAULT_COUNT);
    let rights = Rights::of_client(context).ok_or(CommandError::NoClient)?;
    let name = OwnedText::new(HotKeys::SPEC.name.to_bytes());
    let keyword = OwnedText::new(KEYWORD.to_bytes());
    let may_use = |key: &[u8]| {
        let key = OwnedText::new(key);
        rights.allow(context, &[name.text(), keyword.text(), key.text()])
    };
    let keys: Vec<_> = statistics::hottest(context, monotonic(), waiting::ongoing_waits(context))
        .into_iter()
        .filter(|(key, _)| may_use(key))
        .take(count)
        .collect();
    context.reply_array(keys.len());
    for (key, stats) in &keys {
        reply(context, key, stats);
    }
    Ok(())
}

fn reply(context: Context<'_>, key: &[u8], stats: &KeyStats) {
    context.reply_map(6);
    context.reply_bytes(b"key");
    context.reply_bytes(key);
    let numbers = [
        (&b"waits"[..], stats.waits),
        (b"timeouts", stats.timeouts),
        (b"expirations", stats.expirations),
        (b"total-wait-ms", stats.total_wait_ms),
        (b"longest-wait-ms", stats.max_wait_ms),
    ];
    for (name, number) in numbers {
        context.reply_bytes(name);
        context.reply_integer(i64::try_from(number).unwrap_or(i64::MAX));
    }
}
