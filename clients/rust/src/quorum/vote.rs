//! What an acquire has got of one server.

use crate::error::{Error, ErrorKind};
use crate::guard::Guard;
use tokio_util::sync::CancellationToken;

/// What it has got of one server.
#[derive(Default)]
pub(super) struct Vote {
    pub(super) guard: Option<Guard>,
    pub(super) token: u64,
    /// The server has acknowledged the token.
    pub(super) is_raised: bool,
    /// The token that is too far ahead of its clock.
    pub(super) refused: Option<u64>,
    /// Why there is no grant, or no token.
    pub(super) error: Option<Error>,
    /// An acquire or a raise is under way.
    pub(super) is_open: bool,
    /// An acquire waits in line for its turn.
    pub(super) is_in_line: bool,
    /// Acquires so far: only the last one counts.
    pub(super) asks: u64,
    pub(super) leave: CancellationToken,
}

/// The reply of a server.
pub(super) struct Reply {
    pub(super) place: usize,
    pub(super) what: What,
}

pub(super) enum What {
    Asked {
        asks: u64,
        result: Result<Guard, Error>,
    },
    Raised {
        token: u64,
        result: Result<(), Error>,
        is_ahead: bool,
    },
}

impl Vote {
    pub(super) fn is_busy(&self) -> bool {
        self.error
            .as_ref()
            .is_some_and(|error| error.kind() == ErrorKind::Busy)
    }

    /// The grant stands, and the server has acknowledged the token.
    pub(super) fn has(&self, token: u64) -> bool {
        self.is_raised && self.token == token && self.guard.as_ref().is_some_and(Guard::is_held)
    }

    /// The server can be raised to a token, as far as is known.
    pub(super) fn can_have(&self, token: u64) -> bool {
        self.guard.is_some()
            && self.token <= token
            && self.refused.is_none_or(|refused| token < refused)
    }
}
