//! Which searches there are, and what each must come to.

use crate::model::rule;
use crate::setting::Weakening::{
    LossIgnored, LowRaiseCounts, NoRaise, OwnersReused, RaiseLeavesClock, SmallerQuorum,
    TokenOfFewer, TokenOfFewerAndLowRaiseCounts,
};
use crate::setting::{Memory, Passed, Setting};

/// A search, and what is expected of it.
pub(crate) struct Planned {
    pub(crate) name: &'static str,
    /// In which runs it takes part.
    pub(crate) size: Size,
    pub(crate) setting: Setting,
    /// The properties to judge; if there are none, all that the setting can judge.
    pub(crate) rules: &'static [&'static str],
    pub(crate) expected: Expected,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Size {
    /// In every run.
    Short,
    /// In `make model`.
    Full,
    /// As far as the time goes that is given for it.
    Long,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Everything holds.
    Holds,
    /// Everything holds, though a rule is left out: this is why.
    HoldsBecause(&'static str),
    /// This rule is broken.
    Breaks(&'static str),
}

/// The time of the servers has passed what they acknowledged to have raised.
const LOST: Memory = Memory::lost(Passed::Raised);

const WITH_AWAY: Memory = Memory::Lost {
    passed: Passed::Nothing,
    stays_away: true,
};

/// A search of this name in which all should hold.
const fn search(name: &'static str, size: Size) -> Planned {
    Planned {
        name,
        size,
        setting: Setting::new(3, 2, 1),
        rules: &[],
        expected: Expected::Holds,
    }
}

const fn short(name: &'static str) -> Planned {
    search(name, Size::Short)
}

const fn full(name: &'static str) -> Planned {
    search(name, Size::Full)
}

/// A short search that breaks this rule.
const fn breaks(name: &'static str, rule: &'static str) -> Planned {
    Planned {
        expected: Expected::Breaks(rule),
        ..short(name)
    }
}

impl Planned {
    const fn of(mut self, setting: Setting) -> Self {
        self.setting = setting;
        self
    }

    /// Judges no other rules.
    const fn only(mut self, rules: &'static [&'static str]) -> Self {
        self.rules = rules;
        self
    }

    const fn holds_because(mut self, why: &'static str) -> Self {
        self.expected = Expected::HoldsBecause(why);
        self
    }
}

/// All searches, in the order in which they are told.
pub(crate) fn all() -> Vec<Planned> {
    let all = [the_protocol(), lost_memory(), weakened(), large()];
    all.into_iter().flatten().collect()
}

fn the_protocol() -> Vec<Planned> {
    let three = |attempts| Setting::new(3, 2, attempts);
    let five = Setting::new(5, 2, 1);
    vec![
        short("nothing fails").of(three(1).reliable()),
        full("nothing fails, 5 servers").of(five.reliable()),
        full("every message taken").of(three(1)),
        full("every message taken, leases trusted").of(three(1).trusted()),
        short("memory lost, one message unheard").of(three(1).memory(LOST).unheard(1)),
        full("memory kept, one message unheard").of(three(2).unheard(1)),
        full("memory lost").of(three(2).memory(LOST).unheard(0)),
        short("memory lost, with a register").of(three(1).memory(LOST).with_register().unheard(0)),
        short("memory kept").of(three(2).unheard(0)),
        full("memory kept, with a register").of(three(2).with_register().unheard(0)),
        full("leases trusted, memory kept").of(three(2).trusted().unheard(0)),
    ]
}

fn lost_memory() -> Vec<Planned> {
    let three = Setting::new(3, 2, 1).unheard(0);
    vec![
        breaks("memory lost, time may be behind", rule::HIGHER)
            .of(three.memory(Memory::lost(Passed::Nothing))),
        breaks("memory lost, time behind raises only", rule::HIGHER)
            .of(three.memory(Memory::lost(Passed::Granted))),
        breaks("memory lost, leases trusted, at once", rule::NO_OVERLAP)
            .of(three.trusted().memory(LOST)),
        full("memory lost, leases trusted, away for a lease")
            .of(three.trusted().memory(WITH_AWAY))
            .only(&[rule::NO_OVERLAP]),
    ]
}

fn weakened() -> Vec<Planned> {
    let three = |weakening, attempts| Setting::new(3, 2, attempts).unheard(0).weakened(weakening);
    vec![
        breaks("no round 2", rule::HIGHER).of(three(NoRaise, 1)),
        breaks("RAISE leaves the server's clock", rule::HIGHER).of(three(RaiseLeavesClock, 1)),
        full("a RAISE too low counts")
            .of(three(LowRaiseCounts, 1).unheard(1))
            .only(&[rule::HIGHER])
            .holds_because(
                "a server whose grant is above T has a clock above T, and that is all the proof \
                 needs",
            ),
        breaks("a RAISE too low counts, overlapping", rule::OWN_TOKEN)
            .of(three(LowRaiseCounts, 1).with_register()),
        full("T of fewer than a majority")
            .of(three(TokenOfFewer, 2))
            .holds_because(
                "a server whose grant is above T refuses to raise it, so T is the highest of those \
                 that acknowledge",
            ),
        breaks("T of fewer, and a RAISE too low counts", rule::HIGHER)
            .of(three(TokenOfFewerAndLowRaiseCounts, 1)),
        breaks("a loss is ignored, leases trusted", rule::NO_OVERLAP)
            .of(three(LossIgnored, 1).trusted()),
        breaks("fewer than a majority is enough", rule::HIGHER).of(three(SmallerQuorum, 1)),
        breaks("owners reused", rule::HIGHER).of(three(OwnersReused, 2)),
        breaks("owners reused, leases trusted", rule::NO_OVERLAP)
            .of(three(OwnersReused, 2).trusted()),
    ]
}

fn large() -> Vec<Planned> {
    let large = |name, servers, clients, attempts| {
        let setting = Setting::new(servers, clients, attempts);
        search(name, Size::Long).of(setting.memory(LOST).unheard(0))
    };
    vec![
        large("3 clients", 3, 3, 1),
        large("5 servers", 5, 2, 1),
        large("3 clients, 2 attempts", 3, 3, 2),
        large("5 servers, 2 attempts", 5, 2, 2),
    ]
}
