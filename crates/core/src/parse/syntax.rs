//! The description of a command's arguments in `COMMAND DOCS`. Each description is next to its parser.

use std::ffi::CStr;

/// One argument, or a group of them.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// The name.
    pub name: &'static CStr,
    /// The kind.
    pub kind: Kind,
    /// The keyword before the argument.
    pub keyword: Option<&'static CStr>,
    /// True if the argument can be omitted.
    pub optional: bool,
    /// The version that added the argument, if that is later than the command.
    pub since: Option<&'static CStr>,
}

/// The kind of an argument.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Any bytes.
    String,
    /// An integer.
    Integer,
    /// A keyword without a value.
    Flag,
    /// One of these arguments.
    OneOf(&'static [Argument]),
}

impl Argument {
    pub(super) const fn new(name: &'static CStr, kind: Kind) -> Self {
        Self {
            name,
            kind,
            keyword: None,
            optional: false,
            since: None,
        }
    }

    /// An argument after a keyword.
    pub(super) const fn after(keyword: &'static CStr, name: &'static CStr, kind: Kind) -> Self {
        Self {
            keyword: Some(keyword),
            ..Self::new(name, kind)
        }
    }

    pub(super) const fn optional(self) -> Self {
        Self {
            optional: true,
            ..self
        }
    }

    pub(super) const fn since(self, version: &'static CStr) -> Self {
        Self {
            since: Some(version),
            ..self
        }
    }
}

pub(super) const OWNER: Argument = Argument::new(c"owner", Kind::String);
pub(super) const TOKEN: Argument = Argument::after(c"TOKEN", c"token", Kind::Integer).optional();

#[cfg(test)]
mod tests {
    use super::{Argument, CStr, Kind};
    use crate::Lease;
    use crate::parse::{ACQUIRE, COUNT, Malformed, RELEASE, RENEW, Words};
    use crate::parse::{SESSION_GRANTS, SESSION_OPEN, SESSION_POLL};
    use crate::parse::{acquire, count, release, renew};
    use crate::parse::{session_grants, session_open, session_poll};

    /// The description of a command's arguments, the words before its options, and its parser.
    type Call = (
        &'static [Argument],
        &'static [&'static [u8]],
        fn(&[&[u8]]) -> Result<(), Malformed>,
    );

    fn words<'a>(list: &'a [&'a [u8]]) -> Words<impl Iterator<Item = &'a [u8]>> {
        Words::new(list.iter().copied(), Lease::MAX)
    }

    fn keywords(arguments: &'static [Argument]) -> Vec<&'static [u8]> {
        let mut found = Vec::new();
        for argument in arguments {
            if let Kind::OneOf(group) = argument.kind {
                found.extend(keywords(group));
            }
            found.extend(argument.keyword.map(CStr::to_bytes));
        }
        found
    }

    #[test]
    fn the_options_described_are_those_parsed() {
        let calls: [Call; 7] = [
            (ACQUIRE, &[b"a"], |list| acquire(&mut words(list)).map(drop)),
            (RELEASE, &[b"a"], |list| release(&mut words(list)).map(drop)),
            (RENEW, &[b"a"], |list| renew(&mut words(list)).map(drop)),
            (COUNT, &[], |list| count(&mut words(list)).map(drop)),
            (SESSION_OPEN, &[], |list| {
                session_open(&mut words(list)).map(drop)
            }),
            (SESSION_POLL, &[b"7"], |list| {
                session_poll(&mut words(list)).map(drop)
            }),
            (SESSION_GRANTS, &[b"7"], |list| {
                session_grants(&mut words(list)).map(drop)
            }),
        ];
        assert_eq!(
            keywords(RELEASE),
            [&b"ALL"[..], b"HOLDS", b"SESSION", b"TOKEN"]
        );
        for (arguments, before, parse) in calls {
            for keyword in keywords(arguments).into_iter().chain([&b"NONE"[..]]) {
                let unknown = Malformed::unknown_option(keyword);
                let is_unknown = parse(&[before, &[keyword]].concat()) == Err(unknown);
                // `*` is an owner, not an option.
                let is_option = keyword != b"NONE" && keyword != b"*";
                assert_eq!(is_unknown, !is_option, "{}", keyword.escape_ascii());
            }
        }
    }
}
