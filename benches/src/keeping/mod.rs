//! Leases that the server renews: what that costs, and how soon a crash is over.

mod crash;
mod renewals;

use redis::{Cmd, Connection};
use testbed::{Expect, cmd};

use crate::part::Part;
use crate::scale::Scale;
use crate::servers::Program;
use crate::session::open_session;
use crate::toolchains;
use crate::ways::command;

pub(crate) use crash::{ROLE, keep};

/// How long a keeper may be silent.
const SILENCE_MS: u32 = 60_000;

/// Who has the grants that the server renews: connections (`KEEP`), or sessions.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Keeper {
    Connection,
    Session,
}

impl Keeper {
    /// Where its grants are, for a title.
    const fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Session => "session",
        }
    }

    /// The session of this connection, if it needs one.
    fn open(self, connection: &mut Connection) -> i64 {
        match self {
            Self::Connection => 0,
            Self::Session => open_session(connection),
        }
    }

    fn acquire(self, session: i64, key: &str, owner: &str, lease_ms: u32) -> Cmd {
        let mut call = command(&["LOCK.ACQUIRE", key, owner, "PX"], &[lease_ms]);
        match self {
            Self::Connection => call.arg("KEEP").arg(SILENCE_MS),
            Self::Session => call.arg("SESSION").arg(session),
        };
        call
    }

    /// The program says that it is alive.
    fn be_heard(self, connection: &mut Connection, session: i64) {
        match self {
            Self::Connection => cmd!(*connection, "PING").value(),
            Self::Session => cmd!(*connection, "LOCK.SESSION", "POLL", session).value(),
        };
    }
}

/// All parts on each server; the goals are those of the first.
pub(crate) fn measure(programs: &[Program], keeper: Keeper, scale: &Scale) -> Part {
    let java = (keeper == Keeper::Connection).then(|| toolchains::build("java"));
    let mut all = Part::default();
    for (index, program) in programs.iter().enumerate() {
        let mut part = renewals::measure(program, keeper, scale);
        part.add(crash::measure(program, keeper, java.as_ref(), scale));
        if index > 0 {
            part.goals.clear();
        }
        all.add(part);
    }
    all
}
