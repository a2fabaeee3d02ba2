//! Parsing of calls, given as lines such as `ACQUIRE owner PX 500`: the parser agrees with the grammar, and
//! the case and the order of options do not matter.
//!
//! Each number is also replaced by the ends of the ranges, which a fuzzer seldom finds.
#![no_main]

mod grammar;

use libfuzzer_sys::fuzz_target;
use redis_lock_core::parse::{self, Malformed, Words};
use redis_lock_core::{Lease, Token};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    Acquire,
    Release,
    Renew,
    Fence,
    Waiters,
    Clock,
}

#[derive(Debug, PartialEq, Eq)]
enum Request<'a> {
    Acquire(parse::Acquire<'a>),
    Release(parse::Release<'a>),
    Renew(parse::Renew<'a>),
    Fence(Option<Token>),
    Waiters(Option<usize>),
    Clock(Token),
}

const ENDS: [&[u8]; 18] = [
    b"0",
    b"1",
    b"-1",
    b"60",
    b"61",
    b"999",
    b"1000",
    b"60000",
    b"60001",
    b"2147483647",
    b"2147483648",
    b"4294967297",
    b"315360000",
    b"315360001",
    b"315360000000",
    b"315360000001",
    b"9007199254740991",
    b"9007199254740992",
];

impl Command {
    fn named(word: &[u8]) -> Option<Self> {
        Some(match word {
            b"ACQUIRE" => Self::Acquire,
            b"RELEASE" => Self::Release,
            b"RENEW" => Self::Renew,
            b"FENCE" => Self::Fence,
            b"WAITERS" => Self::Waiters,
            b"_CLOCK" => Self::Clock,
            _ => return None,
        })
    }

    /// Parses the words with the core's parser.
    fn parse<'a>(self, words: &[&'a [u8]], max_lease: Lease) -> Result<Request<'a>, Malformed> {
        let words = &mut Words::new(words.iter().copied(), max_lease);
        Ok(match self {
            Self::Acquire => Request::Acquire(parse::acquire(words)?),
            Self::Release => Request::Release(parse::release(words)?),
            Self::Renew => Request::Renew(parse::renew(words)?),
            Self::Fence => Request::Fence(parse::fence(words)?),
            Self::Waiters => Request::Waiters(parse::count(words)?),
            Self::Clock => Request::Clock(parse::clock(words)?),
        })
    }
}

fuzz_target!(|calls: &[u8]| {
    for call in calls.split(|byte| *byte == b'\n') {
        let mut words = call.split(|byte| *byte == b' ');
        if let Some(command) = words.next().and_then(Command::named) {
            let mut words: Vec<_> = words.collect();
            check(command, &words);
            for at in 0..words.len() {
                let word = words[at];
                if word.last().is_some_and(u8::is_ascii_digit) {
                    for end in ENDS {
                        words[at] = end;
                        check(command, &words);
                    }
                    words[at] = word;
                }
            }
        }
    }
});

fn check(command: Command, words: &[&[u8]]) {
    for max_ms in [1, 60_000, 315_360_000_000] {
        check_within(command, words, max_ms);
    }
}

fn check_within(command: Command, words: &[&[u8]], max_ms: u64) {
    let max_lease = Lease::from_millis(max_ms).expect("a lease");
    let parsed = command.parse(words, max_lease);
    let Some(call) = grammar::parse(command, words, max_ms.into()) else {
        check_error(&parsed.expect_err("the grammar does not allow it"));
        return;
    };
    assert_eq!(parsed, Ok(call.request(command)), "by the grammar");
    let again = call.words(command);
    let again: Vec<_> = again.iter().map(Vec::as_slice).collect();
    assert_eq!(
        command.parse(&again, max_lease),
        parsed,
        "printed as {again:?}"
    );
}

/// An error is one short line with its code first, whatever it quotes.
fn check_error(Malformed(error): &Malformed) {
    let text = error.to_str().expect("text");
    assert!(text.starts_with("ERR "), "{text:?}");
    assert!(text.len() < 200, "{text:?}");
    assert!(!text.contains(char::is_control), "{text:?}");
}
