//! The errors of calls that name a session.

use crate::locks::CommandError;

pub(crate) const NO_SESSION: CommandError = CommandError::argument(
    c"NOSESSION this user has no such session in this database: it has ended, or belongs to another user",
);
/// For commands that accept sessions of any user and any database.
pub(super) const NOT_OPEN: CommandError =
    CommandError::argument(c"NOSESSION no session with this id is open");
pub(super) const NEWER_CONNECTION: CommandError = CommandError::argument(
    c"UNBLOCKED a newer connection polls this session: close this connection; the session continues",
);
pub(super) const NOT_PRIMARY: CommandError = CommandError::argument(
    c"UNBLOCKED this server has become a replica, and its sessions have ended",
);
pub(super) const NO_CONNECTION: CommandError = CommandError::argument(
    c"ERR OPEN and POLL need a client connection: a script, a function or another module has none",
);
pub(super) const TOO_MANY: CommandError = CommandError::argument(
    c"MAXSESSIONS the limit of open sessions on this server is reached: lock.max-sessions",
);
pub(super) const POLLS_ITSELF: CommandError = CommandError::argument(
    c"ERR this connection polls the session, and cannot poll while it waits: use another connection for BLOCK",
);
