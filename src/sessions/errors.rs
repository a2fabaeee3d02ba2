//! The errors of calls that name a session.

use crate::locks::CommandError;

pub(crate) const NO_SESSION: CommandError = CommandError::argument(
    c"NOSESSION there is no such session of this user in this database: it has ended, or is another's",
);
pub(super) const NEWER_CONNECTION: CommandError = CommandError::argument(
    c"UNBLOCKED a newer connection polls this session: close this one, the session goes on",
);
pub(super) const NOT_PRIMARY: CommandError = CommandError::argument(
    c"UNBLOCKED this server has become a replica, and its sessions have ended",
);
pub(super) const NO_CONNECTION: CommandError = CommandError::argument(
    c"ERR a session is opened and polled by a connection: a script, a function or another module has none",
);
pub(super) const TOO_MANY: CommandError = CommandError::argument(
    c"MAXSESSIONS as many sessions are open on this server as lock.max-sessions allows",
);
/// The session has 10,000 events that are not acknowledged.
pub(crate) const FULL: CommandError = CommandError::argument(
    c"MAXWAITERS the session has 10000 events that are not acknowledged: poll it first",
);
pub(super) const POLLS_ITSELF: CommandError = CommandError::argument(
    c"ERR this connection polls the session, and could not while it waits: use another one for BLOCK",
);
pub(super) const LEASE_TOO_SHORT: CommandError = CommandError::argument(
    c"ERR a grant in a session has a lease of 1000 ms or more: give one with PX or EX, or take the grant \
      out with SESSION 0 of LOCK.RENEW",
);
pub(super) const KEPT: CommandError = CommandError::argument(
    c"ERR a connection keeps this grant, so no session can have it: end that with KEEP 0 first",
);
pub(super) const IN_SESSION: CommandError = CommandError::argument(
    c"ERR a session has this grant, so no connection can keep it: take it out with SESSION 0 first",
);
