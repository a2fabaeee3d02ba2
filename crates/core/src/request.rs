//! The requests that the rules judge, and the settings that the rules use.

use super::{Holds, Lease, Limit, Owner, Token};

/// The settings that the rules depend on.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The lease of a new grant if the call names none.
    pub default_lease: Lease,
    /// How far ahead of the wall clock a token may be raised, in milliseconds.
    pub max_token_lead_ms: u64,
    /// How many holders a lock may have.
    pub max_holders: usize,
}

/// An acquire: `LOCK.ACQUIRE key owner [SHARED | LIMIT n] [PX | EX] [HOLDS n] [TOKEN token]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquire<'a> {
    /// The caller.
    pub owner: Owner<'a>,
    /// How many holders the call allows, the caller included.
    pub limit: Limit,
    /// The requested lease.
    pub lease: Option<Lease>,
    /// How many holds the caller wants to have after the call.
    pub holds: Option<Holds>,
    /// The grant that this call re-enters.
    pub token: Option<Token>,
}

/// How many holds a release gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseAmount {
    /// One hold.
    One,
    /// Every hold.
    All,
    /// All but this many.
    DownTo(u32),
}

impl ReleaseAmount {
    /// How many of the `held` holds are left; `None` if none are left.
    #[must_use]
    pub fn left_of(self, held: Holds) -> Option<Holds> {
        let held = held.number();
        Holds::new(match self {
            Self::One => held - 1,
            Self::All => 0,
            Self::DownTo(count) => count.min(held),
        })
    }
}

/// A release: `LOCK.RELEASE key owner [ALL | HOLDS n] [TOKEN token]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release<'a> {
    /// The caller.
    pub owner: Owner<'a>,
    /// How many holds the call gives back.
    pub amount: ReleaseAmount,
    /// The grant that the call is bound to.
    pub token: Option<Token>,
}

impl Release<'_> {
    /// Returns true if the call also cancels the waits of its owner.
    #[must_use]
    pub fn cancels_waits(&self) -> bool {
        self.amount == ReleaseAmount::All && self.token.is_none()
    }
}

/// A renewal: `LOCK.RENEW key owner [SHARED | LIMIT n] [PX | EX] [TOKEN token [RAISE token]]`.
///
/// A raise needs a token to raise from, so [`Renew::raise`] takes both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renew<'a> {
    pub(crate) owner: Owner<'a>,
    pub(crate) limit: Option<Limit>,
    pub(crate) lease: Option<Lease>,
    pub(crate) token: Option<Token>,
    pub(crate) raise: Option<Token>,
}

impl<'a> Renew<'a> {
    /// The caller.
    #[must_use]
    pub const fn owner(&self) -> Owner<'a> {
        self.owner
    }

    /// The limit to set.
    #[must_use]
    pub const fn limit(&self) -> Option<Limit> {
        self.limit
    }

    /// A renewal that sets this limit and lease. With `token`, it applies only to the grant with that token.
    #[must_use]
    pub const fn new(
        owner: Owner<'a>,
        limit: Option<Limit>,
        lease: Option<Lease>,
        token: Option<Token>,
    ) -> Self {
        Self {
            owner,
            limit,
            lease,
            token,
            raise: None,
        }
    }

    /// A renewal that raises the token of a grant from `token` to `raise`; `None` if `raise` is lower.
    #[must_use]
    pub fn raise(
        owner: Owner<'a>,
        lease: Option<Lease>,
        token: Token,
        raise: Token,
    ) -> Option<Self> {
        (raise >= token).then_some(Self {
            raise: Some(raise),
            ..Self::new(owner, None, lease, Some(token))
        })
    }
}
