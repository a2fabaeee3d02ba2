//! Every `LOCK.*` command in all its forms, and what the key holds when it is sent.
//!
//! Lines are written as in `script`.

use Situation::{Ending, Free, Mine, MineInLine, MineWaited, Text, Theirs, TheirsWaited, Twice};

/// What the key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Situation {
    Free,
    /// A lock of the caller, with `@token`.
    Mine,
    /// The same with two holds.
    Twice,
    /// The same, and somebody waits for it.
    MineWaited,
    /// A lock of another, with `@token`.
    Theirs,
    /// The same, and somebody waits for it.
    TheirsWaited,
    /// The same, and it is the caller's owner who waits, on another connection.
    MineInLine,
    /// A lock of another whose lease is about to end.
    Ending,
    /// A string.
    Text,
}

/// A command.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) situation: Situation,
    pub(crate) line: &'static str,
}

const fn form(situation: Situation, line: &'static str) -> Form {
    Form { situation, line }
}

pub(crate) const FORMS: &[Form] = &[
    form(Free, "LOCK.ACQUIRE @key @me PX 600000"),
    form(Free, "LOCK.ACQUIRE @key * EX 600"),
    form(Free, "LOCK.ACQUIRE @key @me PX 600000 BLOCK 0"),
    form(Free, "LOCK.ACQUIRE @key @me HOLDS 1 PX 600000"),
    form(Free, "LOCK.ACQUIRE @key @me HOLDS 2 BLOCK 0"),
    form(Free, "LOCK.ACQUIRE @key @me TOKEN 5 BLOCK 0"),
    form(Mine, "LOCK.ACQUIRE @key @me"),
    form(
        Mine,
        "LOCK.ACQUIRE @key @me PX 700000 BLOCK 0 HOLDS 2 TOKEN @token",
    ),
    form(Mine, "LOCK.ACQUIRE @key @me HOLDS 1 BLOCK 0"),
    form(Mine, "LOCK.ACQUIRE @key @me TOKEN @later"),
    form(MineWaited, "LOCK.ACQUIRE @key @me BLOCK 0"),
    form(Theirs, "LOCK.ACQUIRE @key @me PX 600000"),
    form(Theirs, "LOCK.ACQUIRE @key @me PX 600000 BLOCK 0"),
    form(Theirs, "LOCK.ACQUIRE @key * PX 600000 BLOCK 0"),
    form(Theirs, "LOCK.ACQUIRE @key @me PX 600000 BLOCK 15"),
    form(Theirs, "LOCK.ACQUIRE @key @me EX 600 HOLDS 1 BLOCK 0"),
    form(Theirs, "LOCK.ACQUIRE @key @me HOLDS 2 BLOCK 0"),
    form(Theirs, "LOCK.ACQUIRE @key @me TOKEN @token BLOCK 0"),
    form(TheirsWaited, "LOCK.ACQUIRE @key @me PX 600000 BLOCK 0"),
    form(MineInLine, "LOCK.ACQUIRE @key @me PX 600000 BLOCK 0"),
    form(Ending, "LOCK.ACQUIRE @key @me PX 600000 BLOCK 0"),
    form(Text, "LOCK.ACQUIRE @key @me BLOCK 0"),
    form(Free, "LOCK.ACQUIRE @key"),
    form(Free, "LOCK.ACQUIRE @key @me WORD"),
    form(Free, "LOCK.ACQUIRE @key @me BLOCK -1"),
    form(Free, "LOCK.ACQUIRE @key @me BLOCK 1 BLOCK 1"),
    form(Free, "LOCK.ACQUIRE @key @me PX 0"),
    form(Free, "LOCK.ACQUIRE @key @me PX 1 EX 1"),
    form(Free, "LOCK.ACQUIRE @key @empty"),
    form(Free, "LOCK.ACQUIRE @key @long"),
    form(Free, "LOCK.ACQUIRE @key * HOLDS 1"),
    form(Theirs, "LOCK.ACQUIRE @key @me QUEUE 0"),
    form(Theirs, "LOCK.ACQUIRE @key @me HOLDS 1 SESSION 5 QUEUE 0"),
    form(Free, "LOCK.SESSION POLL 5 BLOCK 0"),
    form(Free, "LOCK.SESSION GRANTS 5"),
    form(Free, "LOCK.SESSION CLOSE 5"),
    form(Free, "LOCK.SESSION HELP"),
    form(Mine, "LOCK.RELEASE @key @me"),
    form(Twice, "LOCK.RELEASE @key @me"),
    form(Twice, "LOCK.RELEASE @key @me ALL TOKEN @token"),
    form(Twice, "LOCK.RELEASE @key @me HOLDS 1 TOKEN @token"),
    form(Mine, "LOCK.RELEASE @key @me HOLDS 0"),
    form(Mine, "LOCK.RELEASE @key @me TOKEN @later"),
    form(MineWaited, "LOCK.RELEASE @key @me"),
    form(MineWaited, "LOCK.RELEASE @key @me ALL"),
    form(MineInLine, "LOCK.RELEASE @key @me ALL"),
    form(Theirs, "LOCK.RELEASE @key @me"),
    form(TheirsWaited, "LOCK.RELEASE @key them"),
    form(Free, "LOCK.RELEASE @key @me ALL"),
    form(Ending, "LOCK.RELEASE @key @me"),
    form(Text, "LOCK.RELEASE @key @me ALL"),
    form(Mine, "LOCK.RELEASE @key @me HOLDS x"),
    form(Mine, "LOCK.RENEW @key @me"),
    form(Twice, "LOCK.RENEW @key @me PX 600000 TOKEN @token"),
    form(MineWaited, "LOCK.RENEW @key @me EX 600"),
    form(Mine, "LOCK.RENEW @key @me TOKEN @token RAISE @later"),
    form(Mine, "LOCK.RENEW @key @me TOKEN @token RAISE @early"),
    form(Mine, "LOCK.RENEW @key @me TOKEN @token RAISE @far"),
    form(Mine, "LOCK.RENEW @key @me TOKEN @early RAISE @later"),
    form(Theirs, "LOCK.RENEW @key @me"),
    form(Free, "LOCK.RENEW @key @me PX 600000"),
    form(Text, "LOCK.RENEW @key @me"),
    form(Mine, "LOCK.RENEW @key @me RAISE @later"),
    form(Free, "LOCK.FENCE @key"),
    form(Mine, "LOCK.FENCE @key"),
    form(TheirsWaited, "LOCK.FENCE @key @token"),
    form(Theirs, "LOCK.FENCE @key @later"),
    form(Text, "LOCK.FENCE @key @token"),
    form(Mine, "LOCK.FENCE @key x"),
    form(Free, "LOCK.INFO @key"),
    form(TheirsWaited, "LOCK.INFO @key"),
    form(Text, "LOCK.INFO @key"),
    form(Free, "LOCK.INFO"),
    form(Free, "LOCK.WAITERS @key"),
    form(TheirsWaited, "LOCK.WAITERS @key"),
    form(MineInLine, "LOCK.WAITERS @key COUNT 1"),
    form(Free, "LOCK.WAITERS @key COUNT 0"),
    form(TheirsWaited, "LOCK.HOTKEYS"),
    form(Free, "LOCK.HOTKEYS COUNT 2"),
    form(Free, "LOCK.HOTKEYS COUNT"),
    form(Free, "LOCK._APPLY @key applied @later 1 600000 @end"),
    form(
        TheirsWaited,
        "LOCK._APPLY @key applied @later 2 600000 @end more",
    ),
    form(Mine, "LOCK._APPLY @key applied @later 1 600000 1"),
    form(Text, "LOCK._APPLY @key applied @later 1 600000 @end"),
    form(Free, "LOCK._APPLY @key applied 0 1 600000 -1"),
    form(Free, "LOCK._CLOCK @later"),
    form(Free, "LOCK._CLOCK 0"),
    form(Free, "LOCK.NOTHING @key @me"),
];
