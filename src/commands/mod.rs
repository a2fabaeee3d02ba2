//! The `LOCK.*` commands, and the section `lock` of `INFO`.

mod acquire;
mod effects;
mod fence;
mod holder;
mod holders;
mod hot_keys;
mod info;
mod release;
mod renew;
mod section;
mod session;
mod waiters;

use redis_lock_core::parse::{self, Kind, Words};

use crate::locks::{CommandError, max_lease};
use crate::server::{self, ArgKind, Argument, Context, Text};

/// The version that added the first commands. A later command names its own version.
const SINCE: &std::ffi::CStr = c"0.1.0";

/// Converts the core's description of a command's arguments to the server's form.
fn documented(words: &[parse::Argument]) -> Vec<Argument> {
    let argument = |word: &parse::Argument| Argument {
        name: word.name,
        kind: match word.kind {
            Kind::String => ArgKind::String,
            Kind::Integer => ArgKind::Integer,
            Kind::Flag => ArgKind::Flag,
            Kind::OneOf(group) => ArgKind::OneOf(documented(group)),
        },
        keyword: word.keyword,
        optional: word.optional,
        since: word.since,
    };
    words.iter().map(argument).collect()
}

/// Registers the commands and the section of `INFO`.
pub(crate) fn load(context: Context<'_>) -> Result<(), &'static str> {
    let category = server::add_acl_category(context, c"lock");
    let category = category.as_ref();
    let registered = server::register_command::<acquire::Acquire>(context, category)
        && server::register_command::<release::Release>(context, category)
        && server::register_command::<renew::Renew>(context, category)
        && server::register_command::<fence::Fence>(context, category)
        && server::register_command::<info::Info>(context, category)
        && server::register_command::<holders::HoldersOf>(context, category)
        && server::register_command::<waiters::Waiters>(context, category)
        && server::register_command::<hot_keys::HotKeys>(context, category)
        && session::load(context, category)
        && server::register_command::<effects::Apply>(context, category)
        && server::register_command::<effects::Clock>(context, category)
        && server::register_command::<effects::Probe>(context, category);
    server::register_info(context, section::write);
    if registered {
        Ok(())
    } else {
        Err("the server refused a command")
    }
}

/// Splits the arguments of a call into its key and the words after the key.
fn key_and_words<'call>(
    arguments: &'call [Text<'call>],
) -> Result<(Text<'call>, Words<impl Iterator<Item = &'call [u8]>>), CommandError> {
    // The server has checked the arity.
    let [_name, key, words @ ..] = arguments else {
        return Err(CommandError::argument(c"ERR wrong number of arguments"));
    };
    Ok((*key, in_order(words)))
}

fn in_order<'call>(words: &'call [Text<'call>]) -> Words<impl Iterator<Item = &'call [u8]>> {
    Words::new(words.iter().map(|text| text.bytes()), max_lease())
}

/// The longest name, in bytes, of a lock that clients wait for or that a session renews. Longer names would be too
/// slow, because the module opens such a lock every few milliseconds, and each time the server reads the whole name
/// twice.
const MAX_WATCHED_NAME: usize = 8192;
