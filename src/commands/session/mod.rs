//! `LOCK.SESSION` and its subcommands.

mod close;
mod grants;
mod help;
mod list;
mod open;
mod poll;

use redis_lock_core::parse::Words;
use redis_lock_core::sessions::SessionId;

use super::{MAX_WATCHED_NAME, in_order};
use crate::locks::CommandError;
use crate::server::{self, AclCategory, Context, Spec, Text};
use crate::sessions;

/// The container command, with the fields that its subcommands have in common.
const CONTAINER: Spec = Spec {
    name: c"lock.session",
    flags: c"",
    categories: c"slow",
    arity: -2,
    summary: c"A container for session commands.",
    complexity: c"O(1), or as the subcommand says",
    since: c"0.3.0",
    history: &[],
    key: None,
    arguments: Vec::new,
};

/// Registers the subcommands.
pub(super) fn load(context: Context<'_>, category: Option<&AclCategory>) -> bool {
    server::register_container(context, &CONTAINER, category)
        && server::register_command::<open::Open>(context, category)
        && server::register_command::<poll::Poll>(context, category)
        && server::register_command::<grants::Grants>(context, category)
        && server::register_command::<close::Close>(context, category)
        && server::register_command::<close::Kill>(context, category)
        && server::register_command::<list::List>(context, category)
        && server::register_command::<help::Help>(context, category)
}

/// The words after the names of the command and the subcommand.
fn words<'call>(
    arguments: &'call [Text<'call>],
) -> Result<Words<impl Iterator<Item = &'call [u8]>>, CommandError> {
    // The server has checked the arity.
    let [_container, _name, words @ ..] = arguments else {
        return Err(CommandError::argument(c"ERR wrong number of arguments"));
    };
    Ok(in_order(words))
}

/// Checks the name of the lock, and that the session belongs to the caller's user and database.
pub(super) fn check_session(
    context: Context<'_>,
    name: Text<'_>,
    session: SessionId,
) -> Result<(), CommandError> {
    check_session_name(name)?;
    sessions::check_known(context, session)
}

/// Checks that the name of a lock is short enough for a grant in a session.
pub(super) fn check_session_name(name: Text<'_>) -> Result<(), CommandError> {
    if name.bytes().len() > MAX_WATCHED_NAME {
        return Err(CommandError::argument(
            c"ERR with SESSION the name of the lock must be at most 8192 bytes long",
        ));
    }
    Ok(())
}
