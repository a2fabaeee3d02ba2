//! What a guard needs of whatever keeps the locks: one server, wherever it is at the moment
//! ([`Direct`](crate::server::Direct)), or several that decide together
//! ([`Quorum`](crate::quorum::Quorum)).

use crate::Error;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::Instant;

/// What a call comes to.
pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) key: Vec<u8>,
    pub(crate) owner: String,
    /// The caller has chosen the owner.
    pub(crate) is_owner_chosen: bool,
    pub(crate) lease: Duration,
    pub(crate) wait: Wait,
}

/// How long to wait for a lock that is not free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Not at all.
    No,
    /// At most this long.
    AtMost(Duration),
    /// As long as it takes.
    Forever,
}

/// One unbroken ownership of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) key: Vec<u8>,
    pub(crate) owner: String,
    pub(crate) token: u64,
}

/// A grant as it stands.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    pub(crate) grant: Grant,
    /// How many times the owner holds the lock now.
    pub(crate) holds: u32,
    /// Until when the caller may trust it: counted from the sending of the call.
    pub(crate) trusted_until: Instant,
}

/// Keeps locks. A call that fails for want of an answer is repeated until it gets one or until the
/// time `until` has come, at least once; so each must have the same effect when it is carried out
/// twice. A grant that is gone is [`Error::Lost`].
pub(crate) trait Backend: Send + Sync + 'static {
    /// A new grant; none when the time was up. When the answer is dropped before it is there, or is an
    /// error, neither a hold nor a waiting call may stay behind.
    fn acquire<'a>(&'a self, request: &'a Request) -> Answer<'a, Option<Granted>>;

    /// One more hold, so that there are `holds`.
    fn enter<'a>(&'a self, grant: &'a Grant, holds: u32, until: Instant) -> Answer<'a, Granted>;

    /// The lease begins anew.
    fn renew<'a>(
        &'a self,
        grant: &'a Grant,
        lease: Duration,
        until: Instant,
    ) -> Answer<'a, Granted>;

    /// Gives back holds until there are only `holds` left; 0 frees the lock.
    fn release<'a>(&'a self, grant: &'a Grant, holds: u32, until: Instant) -> Answer<'a, ()>;
}
