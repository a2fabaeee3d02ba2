//! The result of a check.

use std::collections::BTreeMap;
use std::fmt;

use crate::Register;

/// How strict a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing that was acknowledged may be lost.
    Strict,
    /// In each span of [`Facts::losses`](crate::Facts::losses) the server may go back to an earlier
    /// state. Tokens rise all the same.
    Lossy,
    /// In those spans two servers may both take themselves for the primary: no single order of all
    /// calls need exist, and the rules over pairs of calls are all that is asked. Also for histories that are too
    /// long to search.
    Split,
}

/// An error in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A grant stood while another one of the same key certainly did.
    Exclusion,
    /// A token is lower than one that was known before its call was sent.
    TokenOrder,
    /// Two grants have one token, or a grant was answered to somebody else.
    TokenShared,
    /// A later call was granted first.
    QueueOrder,
    /// A register took a write after one with a higher token.
    RegisterWentBack,
    /// A register refused a write, and the token's grant certainly stood.
    RegisterRefused,
    /// A register took a write, and the token's grant was certainly over.
    RegisterTookStale,
    /// A call that failed with DEADLOCK would have closed no cycle.
    NoCycle,
    /// A PING was answered on a connection whose grant was lost, or somebody else got the lock too soon
    /// after one, or after a POLL.
    PromiseBroken,
    /// No order of the calls explains their replies.
    NoOrder,
}

/// One thing that a correct lock cannot have done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The error.
    pub kind: Kind,
    /// Of which lock.
    pub key: String,
    /// The calls concerned, in one line.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {}: {}", self.kind, self.key, self.text)
    }
}

/// The results of the writes to the registers of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writes {
    /// Writes that are there.
    pub taken: usize,
    /// Writes that came too late and were refused.
    pub stale_refused: usize,
}

/// How much there was to check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls.
    pub operations: usize,
    /// Grants: new tokens that somebody was told of. A raise makes none.
    pub grants: usize,
    /// Grants to a call that waited: it was sent before the previous grant was seen to end.
    pub hand_offs: usize,
    /// Acquires that were answered with a grant known already.
    pub re_entries: usize,
    /// Acquires that were told of a deadlock.
    pub deadlocks: usize,
    /// The promises in replies to POLLs: each grant that a reply covered.
    pub promises: usize,
    /// Grants that a loss took from their owner: another one was told of while they should have
    /// stood. Always zero in [`Mode::Strict`], where it is a violation.
    pub lost_grants: usize,
    /// By kind of register.
    pub writes: BTreeMap<Register, Writes>,
}

impl Counts {
    /// All but the writes, each by its name.
    #[must_use]
    pub fn named(&self) -> [(&'static str, usize); 7] {
        [
            ("operations", self.operations),
            ("grants", self.grants),
            ("hand-offs", self.hand_offs),
            ("re-entries", self.re_entries),
            ("deadlocks", self.deadlocks),
            ("promises", self.promises),
            ("lost grants", self.lost_grants),
        ]
    }
}

/// The findings of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The errors, key by key.
    pub violations: Vec<Violation>,
    /// Keys whose search for an order was given up as too long: it is not known whether there is
    /// one, which counts as a failure.
    pub undecided: Vec<String>,
    /// The lost grants that are counted: each with who was told of another grant meanwhile, in one
    /// line.
    pub losses: Vec<String>,
    /// How much was checked.
    pub counts: Counts,
}

impl Report {
    /// Everything was checked, and nothing is wrong.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.violations.is_empty() && self.undecided.is_empty()
    }
}
