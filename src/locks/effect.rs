//! Replicates effects. Replicas and the append-only file do not get a command but its effect: the new state of an
//! exclusive lock, or one change of a shared lock. Only a release that frees its lock is replicated as sent.
//! `docs/design.md` has the details.

use std::ffi::CStr;

use redis_lock_core::Token;

use crate::server::{self, AofWriter, Context, Text, WriteCheck};

/// The command that carries a lock.
pub(crate) const APPLY: &CStr = c"lock._apply";
/// The command that carries the token clock.
pub(crate) const CLOCK: &CStr = c"lock._clock";

/// A command that is flagged as a write but does nothing. The server allows it exactly when it would allow a grant.
pub(crate) const PROBE: &CStr = c"lock._probe";

const FREE: &CStr = c"DEL";

/// Checks that the server still has the commands that the module calls, which `rename-command` can remove.
pub(super) fn load(context: Context<'_>) -> Result<(), &'static str> {
    if !context.has_command(FREE) {
        return Err(
            "DEL is renamed or disabled on this server (rename-command), but the module needs it for replicas \
             and the append-only file: keep users from it by ACL rules instead",
        );
    }
    let cluster = context.flags().cluster();
    for (command, matters, consequence) in [
        (
            c"CLIENT",
            true,
            "a client that has just disconnected may be granted a lock, and keep it for one lease",
        ),
        (
            c"CLUSTER",
            cluster,
            "waiting calls get CLUSTERDOWN when their slot has moved away",
        ),
        (
            c"CONFIG",
            cluster,
            "waiting calls are redirected as by the default settings",
        ),
    ] {
        if matters && !context.has_command(command) {
            let command = command.to_string_lossy();
            server::warn(&format!(
                "{command} is renamed or disabled on this server (rename-command): {consequence}"
            ));
        }
    }
    Ok(())
}

/// Asks the server whether it would allow a grant of this lock now.
pub(crate) fn check_write(context: Context<'_>, key: Text<'_>) -> WriteCheck {
    context.check_write(PROBE, key)
}

pub(super) fn replicate(context: Context<'_>, key: Text<'_>, effect: &[u8]) {
    context.replicate_key_bytes(APPLY, key, effect);
}

pub(super) fn rewrite(key: Text<'_>, effect: &[u8], out: &mut AofWriter) {
    out.command(APPLY, key, effect);
}

pub(super) fn replicate_free(context: Context<'_>, key: Text<'_>) {
    context.replicate_key(FREE, key);
}

/// Replicates the running command, a release that frees its lock, as it was sent. On some servers that costs less than
/// another command (docs/hot-path.md), and it is safe because the release always leaves the lock free.
pub(super) fn replicate_release(context: Context<'_>) {
    context.replicate_verbatim();
}

pub(super) fn replicate_clock(context: Context<'_>, token: Token) {
    context.replicate_number(CLOCK, token.number().cast_signed());
}
