//! Two programs, one lock, sessions: the client's rules of docs/client-protocol.md, played against the module's own core
//! over a network that loses and delays requests and replies.
//!
//! A search is a number of plays, each by a seed of its own. In every play
//! * who believes to hold the lock holds it, and so no two believe it; unless the lock was taken by force (DEL), and that
//!   was not told yet;
//! * a loss is told only of a grant that is lost; of one that is silent, where the network fails;
//! * in the end nobody waits, nothing is held, and nothing is left to release.
//!
//! Leaving out a rule of the client ([`Rule`]) breaks one of these: [`OMISSIONS`] keeps a play for each.
//!
//! * `server`: the server; `program`: what a program knows; `user`: its tasks; `world`: time, network, faults.

mod program;
mod server;
mod user;
mod world;

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use world::play;

/// The lease of a session's grants, a fixed lease, how long a program may be silent, and the time for a reply, in
/// milliseconds.
const LEASE: u64 = 3000;
const FIXED_LEASE: u64 = 30_000;
const SESSION: u64 = 2000;
const REPLY: u64 = 1000;

/// A rule of the client that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// An owner is not used again while a call in its name is unanswered.
    OwnerNotReused,
    /// A task takes a fresh owner after a call without a reply, after a loss, and after it gave up a wait.
    FreshOwner,
    /// Only a release by the user names the session. Without this rule the server refuses each cancel, which has no
    /// token. No play shows harm by the releases that have one, since the other rules keep them from grants in use.
    OnlyUserNamesSession,
    /// A POLL counts only for grants of this session.
    PollOfThisSession,
    /// A POLL counts only for grants that were known when it was sent.
    KnownWhenSent,
    /// Tokens of losses are remembered while an ACQUIRE is under way.
    LossBeforeGrant,
    /// Grants that nobody knows are released.
    Strays,
    /// A grant that is waited for, or has a call under way, is no stray.
    WaitsAreNoStrays,
    /// Silence is judged by a try that began after `sure`.
    SilenceAfterSure,
}

/// A play in which leaving out a rule breaks something.
struct Omission {
    rule: Rule,
    seed: u64,
    faults: Faults,
}

const fn omission(rule: Rule, seed: u64, faults: Faults) -> Omission {
    Omission { rule, seed, faults }
}

const OMISSIONS: [Omission; 9] = [
    omission(Rule::OwnerNotReused, 15, Faults::All),
    omission(Rule::FreshOwner, 34, Faults::All),
    omission(Rule::OnlyUserNamesSession, 0, Faults::Freezes),
    omission(Rule::PollOfThisSession, 0, Faults::All),
    omission(Rule::KnownWhenSent, 2407, Faults::All),
    omission(Rule::LossBeforeGrant, 7, Faults::All),
    omission(Rule::Strays, 96, Faults::All),
    omission(Rule::WaitsAreNoStrays, 67, Faults::All),
    omission(Rule::SilenceAfterSure, 18, Faults::Freezes),
];

/// The violation in a play.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Faults {
    /// Programs are frozen; the network and the server are sound.
    Freezes,
    /// Those, and requests, replies and closes get lost or late, the server stalls or refuses renewals, and DEL.
    #[default]
    All,
}

/// After a change of the model, another play has to be found in so many.
const MANY: u64 = 5000;

/// Plays both kinds of faults for so long, and leaves out each rule; tells what came of it. True when all is as
/// expected.
pub(crate) fn search(limit: Duration) -> bool {
    let mut is_right = true;
    for faults in [Faults::Freezes, Faults::All] {
        let begun = Instant::now();
        let (mut plays, mut grants) = (0, 0);
        let outcome = loop {
            match play(plays, faults, &[]) {
                Ok(count) => grants += count,
                Err(wrong) => break Err(format!("WRONG, seed {plays}: {wrong}")),
            }
            plays += 1;
            if begun.elapsed() > limit / 2 {
                break Ok(());
            }
        };
        is_right &= outcome.is_ok();
        let verdict = outcome.map_or_else(|wrong| wrong, |()| "holds".to_owned());
        println!("sessions, faults {faults:?}: {verdict} ({plays} plays, {grants} grants)");
    }
    for omission in &OMISSIONS {
        let (seed, faults) = (omission.seed, omission.faults);
        let verdict = if let Err(wrong) = play(seed, faults, &[omission.rule]) {
            format!("breaks in play {seed} ({faults:?}): {wrong}")
        } else {
            is_right = false;
            let other = (0..MANY).find(|seed| play(*seed, faults, &[omission.rule]).is_err());
            match other {
                Some(other) => format!("WRONG: breaks in play {other}, not {seed} ({faults:?})"),
                None => format!("WRONG: breaks in none of {MANY} plays ({faults:?})"),
            }
        };
        println!("sessions, without {:?}: {verdict}", omission.rule);
    }
    is_right
}

#[derive(Clone, Debug)]
enum Request {
    Open,
    Poll { session: u64, block: u64 },
    Acquire(Asks),
    Renew(Move),
    Release(Release),
    Grants { session: u64 },
}

#[derive(Clone, Copy, Debug)]
struct Asks {
    owner: u64,
    session: u64,
    /// How long to wait; 0: no limit.
    queue: Option<u64>,
    lease: u64,
}

/// A grant is to go into this session; none: out of any.
#[derive(Clone, Copy, Debug)]
struct Move {
    owner: u64,
    session: Option<u64>,
    token: u64,
}

/// Owner, token (none: all, and waits), and the session if the user asked for it.
type Release = (u64, Option<u64>, Option<u64>);

#[derive(Clone, Debug)]
enum Reply {
    Session(u64),
    Polled {
        /// None: no lease can end.
        sure_ms: Option<u64>,
        grants: usize,
        events: Vec<Event>,
    },
    Grant(u64),
    Place,
    Busy,
    Released,
    /// `NOTHELD`, `NOTOWNER`, `FENCED`.
    Gone,
    NoSession,
    Unblocked,
    /// A RENEW for now, or a RELEASE of no certain grant that names a session.
    Refused,
    /// Owners and tokens.
    Listed(Vec<(u64, u64)>),
}

#[derive(Clone, Debug)]
struct Event {
    number: u64,
    owner: u64,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Granted(u64),
    Ended,
    Lost(u64),
    Taken(u64),
}

/// Random numbers by a seed (splitmix64).
#[derive(Default)]
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}
