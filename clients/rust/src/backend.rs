//! What a guard needs of whatever has the locks: one server, wherever it is at the moment
//! ([`Direct`](crate::server::Direct)), or several that decide together
//! ([`Quorum`](crate::quorum::Quorum)).

use crate::Error;
use crate::held::Held;
use crate::registry::Turn;
use crate::request::{Change, Grant, Granted, Mode, Request};
use crate::server::commands::Call;
use crate::server::{Keeper, Own, SentTo};
use redis::Value;
use std::pin::Pin;
use std::sync::Arc;
use tokio::time::Instant;

/// What a call comes to.
pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// A grant, and the connection by which the server keeps it.
pub(crate) struct Obtained {
    pub(crate) granted: Granted,
    pub(crate) keeper: Option<Arc<Keeper>>,
}

/// Has locks. A call that fails for want of an answer is repeated until it gets one or until the time
/// `until` has come; so each must have the same effect when it is carried out twice. A grant that is
/// gone is [`Error::Lost`].
pub(crate) trait Backend: Send + Sync + 'static {
    /// A new grant; none when the time was up. When the answer is dropped before it is there, or is an
    /// error, neither a hold nor a waiting call may stay behind. The turn of the owner lasts until then.
    fn acquire<'a>(
        &'a self,
        request: &'a Request,
        turn: Option<Turn>,
    ) -> Answer<'a, Option<Obtained>>;

    /// One more hold, so that there are `holds`: until when it is known to stand.
    fn enter<'a>(
        &'a self,
        grant: &'a Grant,
        holds: u32,
        mode: Mode,
        until: Instant,
    ) -> Answer<'a, Instant>;

    /// So many replicas are to have it as it stands.
    fn acknowledge<'a>(
        &'a self,
        _grant: &'a Grant,
        _replicas: u32,
        _until: Instant,
    ) -> Answer<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The lease begins anew; not where it is `own`, and somebody else keeps it by now.
    fn renew<'a>(
        &'a self,
        grant: &'a Grant,
        own: Option<Own<'a>>,
        change: Change,
        until: Instant,
    ) -> Answer<'a, Obtained>;

    /// The same for a grant of somebody else; tells where it was asked for.
    fn adopt<'a>(
        &'a self,
        grant: &'a Grant,
        change: Change,
        until: Instant,
        _sent_to: &'a mut SentTo,
    ) -> Answer<'a, Obtained> {
        self.renew(grant, None, change, until)
    }

    /// A grant of somebody else that may be kept there, for nobody: it is not, from now on. The turn of the owner
    /// lasts until then.
    fn keep_no_more(&self, _grant: Grant, _sent_to: SentTo, _turn: Turn) {}

    /// Gives back holds until there are only `holds` left, 0 frees the lock; not where it is `own`, and somebody else keeps
    /// it by now.
    fn release<'a>(
        &'a self,
        grant: &'a Grant,
        own: Option<Own<'a>>,
        holds: u32,
        until: Instant,
    ) -> Answer<'a, ()>;

    /// Asks whether the grant stands.
    fn check<'a>(&'a self, held: &'a Arc<Held>, until: Instant) -> Answer<'a, ()>;

    /// A call about a key that only looks, or is an administrator's: that is sent `once`, as another may have the lock by the
    /// second time.
    fn look<'a>(&'a self, key: &'a [u8], call: Call, once: bool) -> Answer<'a, Value>;

    /// From now on the grant is told when it is lost.
    fn look_after(&self, held: &Arc<Held>, keeper: Option<Arc<Keeper>>);

    /// Whether several may hold a lock at once.
    fn can_share(&self) -> bool {
        true
    }

    /// Ends all connections.
    fn close(&self);
}
