//! Owners, hold counts and grants.

use std::borrow::Borrow;
use std::num::NonZeroU32;
use std::sync::Arc;

use super::{Lease, Token};

/// The name of a holder: 1 to 256 arbitrary bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner<'a>(&'a [u8]);

impl<'a> Owner<'a> {
    /// The longest owner, in bytes.
    pub const MAX: usize = 256;

    /// The owner with this name; `None` when the name is empty or too long.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Option<Self> {
        if bytes.is_empty() || bytes.len() > Self::MAX {
            None
        } else {
            Some(Self(bytes))
        }
    }

    /// The name.
    #[must_use]
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// An [`Owner`] that owns its bytes; clones share them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnerBuf(Arc<[u8]>);

impl OwnerBuf {
    /// The owner, borrowed.
    #[must_use]
    pub fn as_owner(&self) -> Owner<'_> {
        Owner(&self.0)
    }
}

impl From<Owner<'_>> for OwnerBuf {
    fn from(owner: Owner<'_>) -> Self {
        Self(Arc::from(owner.0))
    }
}

impl Borrow<[u8]> for OwnerBuf {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// How many times the owner has acquired the lock and not yet released it: 1 to 2^31 - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holds(NonZeroU32);

impl Holds {
    /// The count of a new grant.
    pub const ONE: Self = Self(NonZeroU32::MIN);
    /// The highest count, 2^31 - 1.
    pub const MAX: Self = Self(NonZeroU32::new((1 << 31) - 1).unwrap());

    /// A count of `number`; `None` for zero and above [`Holds::MAX`].
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) if number.get() <= Self::MAX.number() => Some(Self(number)),
            _ => None,
        }
    }

    /// The count as a number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0.get()
    }
}

/// A grant, without its owner, limit and deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The fencing token.
    pub token: Token,
    /// The hold count.
    pub holds: Holds,
    /// The remembered lease, which a renewal without a lease uses.
    pub lease: Lease,
}
