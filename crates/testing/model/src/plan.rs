//! Which searches there are, and what each must come to.

use crate::model::rule;
use crate::setting::{Leases, Memory, Network, Passed, Setting, Weakening};

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
const LOST: Memory = Memory::Lost {
    passed: Passed::Raised,
    stays_away: false,
};

const WITH_AWAY: Memory = Memory::Lost {
    passed: Passed::Nothing,
    stays_away: true,
};

const fn lost(passed: Passed) -> Memory {
    Memory::Lost {
        passed,
        stays_away: false,
    }
}

fn holds(name: &'static str, size: Size, setting: Setting) -> Planned {
    Planned {
        name,
        size,
        setting,
        rules: &[],
        expected: Expected::Holds,
    }
}

/// All searches, in the order in which they are told.
pub(crate) fn all() -> Vec<Planned> {
    let mut all = the_protocol();
    all.extend(lost_memory());
    all.extend(weakened());
    all.extend(large());
    all
}

fn the_protocol() -> Vec<Planned> {
    let three = |attempts| Setting::new(3, 2, attempts);
    vec![
        holds(
            "nothing fails",
            Size::Short,
            Setting {
                network: Network::Reliable,
                ..three(1)
            },
        ),
        holds(
            "nothing fails, 5 servers",
            Size::Full,
            Setting {
                network: Network::Reliable,
                ..Setting::new(5, 2, 1)
            },
        ),
        holds("every message taken", Size::Full, three(1)),
        holds(
            "every message taken, leases trusted",
            Size::Full,
            Setting {
                leases: Leases::AfterTrust,
                ..three(1)
            },
        ),
        holds(
            "memory lost, one message unheard",
            Size::Short,
            Setting {
                memory: LOST,
                unheard: Some(1),
                ..three(1)
            },
        ),
        holds(
            "memory kept, one message unheard",
            Size::Full,
            Setting {
                unheard: Some(1),
                ..three(2)
            },
        ),
        holds(
            "memory lost",
            Size::Full,
            Setting {
                memory: LOST,
                unheard: Some(0),
                ..three(2)
            },
        ),
        holds(
            "memory lost, with a register",
            Size::Short,
            Setting {
                memory: LOST,
                register: true,
                unheard: Some(0),
                ..three(1)
            },
        ),
        holds(
            "memory kept",
            Size::Short,
            Setting {
                unheard: Some(0),
                ..three(2)
            },
        ),
        holds(
            "memory kept, with a register",
            Size::Full,
            Setting {
                register: true,
                unheard: Some(0),
                ..three(2)
            },
        ),
        holds(
            "leases trusted, memory kept",
            Size::Full,
            Setting {
                leases: Leases::AfterTrust,
                unheard: Some(0),
                ..three(2)
            },
        ),
    ]
}

fn lost_memory() -> Vec<Planned> {
    let three = Setting {
        unheard: Some(0),
        ..Setting::new(3, 2, 1)
    };
    vec![
        Planned {
            expected: Expected::Breaks(rule::HIGHER),
            ..holds(
                "memory lost, time may be behind",
                Size::Short,
                Setting {
                    memory: lost(Passed::Nothing),
                    ..three.clone()
                },
            )
        },
        Planned {
            expected: Expected::Breaks(rule::HIGHER),
            ..holds(
                "memory lost, time behind raises only",
                Size::Short,
                Setting {
                    memory: lost(Passed::Granted),
                    ..three.clone()
                },
            )
        },
        Planned {
            expected: Expected::Breaks(rule::NO_OVERLAP),
            ..holds(
                "memory lost, leases trusted, back at once",
                Size::Short,
                Setting {
                    leases: Leases::AfterTrust,
                    memory: LOST,
                    ..three.clone()
                },
            )
        },
        Planned {
            rules: &[rule::NO_OVERLAP],
            ..holds(
                "memory lost, leases trusted, away for a lease",
                Size::Full,
                Setting {
                    leases: Leases::AfterTrust,
                    memory: WITH_AWAY,
                    ..three
                },
            )
        },
    ]
}

fn weakened() -> Vec<Planned> {
    let three = |weakening, attempts| Setting {
        unheard: Some(0),
        weakening: Some(weakening),
        ..Setting::new(3, 2, attempts)
    };
    let breaks = |name, rule, setting| Planned {
        expected: Expected::Breaks(rule),
        ..holds(name, Size::Short, setting)
    };
    vec![
        breaks("no round 2", rule::HIGHER, three(Weakening::NoRaise, 1)),
        breaks(
            "RAISE leaves the server's clock",
            rule::HIGHER,
            three(Weakening::RaiseLeavesClock, 1),
        ),
        Planned {
            rules: &[rule::HIGHER],
            expected: Expected::HoldsBecause(
                "a server whose grant is above T has a clock above T, and that is all the proof needs",
            ),
            ..holds(
                "a RAISE too low counts",
                Size::Full,
                Setting {
                    unheard: Some(1),
                    ..three(Weakening::LowRaiseCounts, 1)
                },
            )
        },
        breaks(
            "a RAISE too low counts, overlapping",
            rule::OWN_TOKEN,
            Setting {
                register: true,
                ..three(Weakening::LowRaiseCounts, 1)
            },
        ),
        Planned {
            expected: Expected::HoldsBecause(
                "a server whose grant is above T refuses to raise it, so T is the highest of those \
                 that acknowledge",
            ),
            ..holds(
                "T of fewer than a majority",
                Size::Full,
                three(Weakening::TokenOfFewer, 2),
            )
        },
        breaks(
            "T of fewer, and a RAISE too low counts",
            rule::HIGHER,
            three(Weakening::TokenOfFewerAndLowRaiseCounts, 1),
        ),
        breaks(
            "a loss is ignored, leases trusted",
            rule::NO_OVERLAP,
            Setting {
                leases: Leases::AfterTrust,
                ..three(Weakening::LossIgnored, 1)
            },
        ),
        breaks(
            "fewer than a majority is enough",
            rule::HIGHER,
            three(Weakening::SmallerQuorum, 1),
        ),
        breaks(
            "owners reused",
            rule::HIGHER,
            three(Weakening::OwnersReused, 2),
        ),
        breaks(
            "owners reused, leases trusted",
            rule::NO_OVERLAP,
            Setting {
                leases: Leases::AfterTrust,
                ..three(Weakening::OwnersReused, 2)
            },
        ),
    ]
}

fn large() -> Vec<Planned> {
    let large = |name, servers, clients, attempts| {
        holds(
            name,
            Size::Long,
            Setting {
                memory: LOST,
                unheard: Some(0),
                ..Setting::new(servers, clients, attempts)
            },
        )
    };
    vec![
        large("3 clients", 3, 3, 1),
        large("5 servers", 5, 2, 1),
        large("3 clients, 2 attempts", 3, 3, 2),
        large("5 servers, 2 attempts", 5, 2, 2),
    ]
}
