//! The ways in which the simulated lock can be wrong.

/// One way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// An acquire of a held lock is granted.
    TwoOwners,
    /// A new grant has a lower token.
    TokenLower,
    /// A new grant has the token of the last one.
    TokenRepeated,
    /// A re-entry makes a new token.
    ReEntryNewToken,
    /// A release does not look at the owner.
    ReleaseByAnyone,
    /// A release of an older grant works.
    TokenIgnored,
    /// A re-entry adds two holds.
    HoldsOffByOne,
    /// `HOLDS` adds a hold each time.
    HoldsRepeated,
    /// `RELEASE HOLDS` gives back one at least.
    DownTooFar,
    /// `RELEASE ALL` leaves one.
    AllKeepsOne,
    /// A renewal takes a free lock.
    RenewTakes,
    /// A renewal is answered, and does nothing.
    RenewForgotten,
    /// A raise is answered, and forgotten.
    RaiseForgotten,
    /// A holder is told that it holds nothing.
    NotHeldWhileHeld,
    /// A free lock is said to be held.
    NilWhileFree,
    /// Leases do not end.
    NeverExpires,
    /// Leases end early.
    ShortLease,
    /// A re-entry brings the lease's end nearer.
    ReEntryShortens,
    /// Waiters are put in front of others.
    LastInFirstOut,
    /// Who comes when the lock is free is served before those who wait.
    Barging,
    /// The calls of a session are passed over though its program polls.
    PassesPresent,
    /// The reply to a POLL promises more than the shortest lease.
    SureTooLong,
    /// What a dead waiter was granted is not given back.
    GivenBackStays,
    /// A dead waiter takes away the grant that another call of its owner was told of.
    TwinTaken,
    /// The current token is refused.
    FencesCurrent,
    /// An older token is let through.
    FencePassesStale,
    /// A call with a limit is granted beside one holder more than that.
    OneTooMany,
    /// A limit counts as long as the call is judged, and not afterwards.
    LimitForgotten,
    /// Who holds it with others is told that it has it alone.
    NotAloneLeftOut,
    /// A grant is told to be narrower, and is not.
    NarrowingForgotten,
    /// A renewal that sets the limit is answered, and does nothing.
    SetLimitForgotten,
    /// The end of one lease ends all.
    OneEndEndsAll,
    /// What was acknowledged is lost.
    Forgets,
    /// Tokens fall after a loss.
    TokensFallAfterLoss,
    /// The database takes whatever comes.
    RegisterTakesAll,
    /// The database refuses whom it should not.
    RegisterRefuses,
}
