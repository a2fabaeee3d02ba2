//! The grammar of the commands, written from its text alone: tables of options and ranges, and a parser that
//! compares numbers as text.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use redis_lock_core::parse::{self, SessionMove, Wait};
use redis_lock_core::sessions::SessionId;
use redis_lock_core::{Holds, Lease, Limit, Owner, Release, ReleaseAmount, Renew, Token};

use super::{Command, Request};

const TEN_YEARS_MS: i128 = 315_360_000_000;
const TOKENS: RangeInclusive<i128> = 1..=9_007_199_254_740_991;
const MAX_HOLDS: i128 = 2_147_483_647;

/// A parsed call: an owner, and a number for each name.
#[derive(Debug, Default)]
pub(crate) struct Call<'a> {
    owner: &'a [u8],
    numbers: BTreeMap<&'static str, i128>,
}

/// A keyword and the numbers that it takes; no range for a keyword alone.
type Option_ = (&'static str, Option<RangeInclusive<i128>>);

/// The options of a command.
fn options(command: Command, max_lease: i128) -> Vec<Option_> {
    let lease = [
        ("PX", Some(1..=max_lease)),
        ("EX", Some(1..=max_lease / 1000)),
    ];
    let limit = [("SHARED", None), ("LIMIT", Some(0..=MAX_HOLDS))];
    let token = ("TOKEN", Some(TOKENS));
    // An id has the range of a token.
    let session = ("SESSION", Some(TOKENS));
    match command {
        Command::Acquire => vec![
            limit[0].clone(),
            limit[1].clone(),
            lease[0].clone(),
            lease[1].clone(),
            session,
            ("BLOCK", Some(0..=TEN_YEARS_MS)),
            ("QUEUE", Some(0..=TEN_YEARS_MS)),
            ("HOLDS", Some(1..=MAX_HOLDS)),
            token,
        ],
        Command::Release => vec![
            ("ALL", None),
            ("HOLDS", Some(0..=MAX_HOLDS)),
            session,
            token,
        ],
        Command::Renew => vec![
            limit[0].clone(),
            limit[1].clone(),
            lease[0].clone(),
            lease[1].clone(),
            ("SESSION", Some(0..=*TOKENS.end())),
            token,
            ("RAISE", Some(TOKENS)),
        ],
        Command::Waiters => vec![("COUNT", Some(1..=i64::MAX.into()))],
        Command::Fence | Command::Clock => Vec::new(),
    }
}

/// The positional numbers of a command.
fn positional(command: Command) -> Vec<(&'static str, RangeInclusive<i128>)> {
    match command {
        Command::Fence | Command::Clock => vec![("token", TOKENS)],
        _ => Vec::new(),
    }
}

/// Parses the words; `None` when the grammar does not allow them.
pub(crate) fn parse<'a>(command: Command, words: &[&'a [u8]], max_lease: i128) -> Option<Call<'a>> {
    let mut call = Call::default();
    let mut words = words.iter().copied().peekable();
    if command.has_owner() {
        call.owner = words.next()?;
        (1..=256).contains(&call.owner.len()).then_some(())?;
    }
    if command == Command::Fence && words.peek().is_none() {
        return Some(call);
    }
    for (name, range) in positional(command) {
        let value = number(words.next()?).filter(|value| range.contains(value))?;
        call.numbers.insert(name, value);
    }
    if command == Command::Clock {
        return Some(call); // further words come from a later version
    }
    while let Some(word) = words.next() {
        let word = text(word).to_ascii_uppercase();
        let options = options(command, max_lease);
        let (name, range) = options.into_iter().find(|(name, _)| *name == word)?;
        let value = match range {
            Some(range) => number(words.next()?).filter(|value| range.contains(value))?,
            None => 0,
        };
        let before = call.numbers.insert(name, value);
        before.is_none().then_some(())?;
    }
    call.is_consistent(command).then_some(call)
}

/// The decimal number that is written exactly like this.
fn number(word: &[u8]) -> Option<i128> {
    let number = text(word).parse::<i64>().ok()?;
    (number.to_string() == text(word)).then_some(number.into())
}

/// A character for each byte.
fn text(word: &[u8]) -> String {
    word.iter().copied().map(char::from).collect()
}

impl Command {
    fn has_owner(self) -> bool {
        !matches!(self, Self::Fence | Self::Waiters | Self::Clock)
    }
}

impl<'a> Call<'a> {
    fn is_consistent(&self, command: Command) -> bool {
        let has = |name| self.numbers.contains_key(name);
        let nameless = command == Command::Acquire && self.owner == b"*";
        let raises_from_nothing = has("RAISE") && !has("TOKEN");
        let lowers = has("RAISE") && self.numbers.get("RAISE") < self.numbers.get("TOKEN");
        let shares = has("SHARED") || has("LIMIT");
        let is_short = |lease: Lease| lease.millis() < 1000;
        let joins = self.number("SESSION").is_some_and(|id| id > 0);
        !(has("PX") && has("EX")
            || has("SHARED") && has("LIMIT")
            || shares && has("RAISE")
            || joins && self.lease().is_some_and(is_short)
            || command == Command::Release && joins && !has("TOKEN")
            || has("ALL") && has("HOLDS")
            || has("BLOCK") && has("QUEUE")
            || has("QUEUE") && (!joins || !has("HOLDS") || has("TOKEN"))
            || nameless && (has("HOLDS") || has("TOKEN") || joins)
            || raises_from_nothing
            || lowers)
    }

    /// The same call, with other cases and the options sorted by name.
    pub(crate) fn words(&self, command: Command) -> Vec<Vec<u8>> {
        let mut words = Vec::new();
        if command.has_owner() {
            words.push(self.owner.to_vec());
        }
        if let [_, ..] = &positional(command)[..] {
            let given = positional(command).into_iter();
            let given = given.filter_map(|(name, _)| self.numbers.get(name));
            words.extend(given.map(|number| number.to_string().into_bytes()));
            return words;
        }
        for (name, value) in &self.numbers {
            let (head, tail) = name.split_at(1);
            words.push(format!("{head}{}", tail.to_lowercase()).into_bytes());
            if !["ALL", "SHARED"].contains(name) {
                words.push(value.to_string().into_bytes());
            }
        }
        words
    }

    /// The request that the words make.
    pub(crate) fn request(&self, command: Command) -> Request<'a> {
        let owner = Owner::new(self.owner);
        match command {
            Command::Acquire => Request::Acquire(parse::Acquire {
                owner: owner.filter(|owner| owner.bytes() != b"*"),
                limit: self.limit(),
                lease: self.lease(),
                session: self.session(),
                wait: self.wait(),
                holds: self.number("HOLDS").and_then(holds),
                token: self.token("TOKEN"),
            }),
            Command::Release => Request::Release(parse::Release {
                request: Release {
                    owner: owner.expect("an owner"),
                    amount: match self.number("HOLDS") {
                        Some(left) => ReleaseAmount::DownTo(left.try_into().expect("a count")),
                        None if self.numbers.contains_key("ALL") => ReleaseAmount::All,
                        None => ReleaseAmount::One,
                    },
                    token: self.token("TOKEN"),
                },
                session: self.session(),
            }),
            Command::Renew => {
                let (owner, token) = (owner.expect("an owner"), self.token("TOKEN"));
                let raised = token.zip(self.token("RAISE"));
                let request = match raised {
                    Some((from, to)) => Renew::raise(owner, self.lease(), from, to)
                        .expect("a raise that does not lower"),
                    None => Renew::new(owner, self.limit(), self.lease(), token),
                };
                Request::Renew(parse::Renew {
                    request,
                    session: self
                        .number("SESSION")
                        .map(|id| SessionId::new(id).map_or(SessionMove::Out, SessionMove::Into)),
                })
            }
            Command::Fence => Request::Fence(self.token("token")),
            Command::Clock => Request::Clock(self.token("token").expect("a token")),
            Command::Waiters => {
                let count = self.number("COUNT");
                Request::Waiters(count.map(|count| count.try_into().expect("a count")))
            }
        }
    }

    fn number(&self, name: &str) -> Option<u64> {
        u64::try_from(*self.numbers.get(name)?).ok()
    }

    fn token(&self, name: &str) -> Option<Token> {
        self.number(name).and_then(Token::new)
    }

    fn wait(&self) -> Option<Wait> {
        let queued = || self.number("QUEUE").map(Wait::Queue);
        self.number("BLOCK").map(Wait::Block).or_else(queued)
    }

    fn session(&self) -> Option<SessionId> {
        self.number("SESSION").and_then(SessionId::new)
    }

    fn limit(&self) -> Option<Limit> {
        if self.numbers.contains_key("SHARED") {
            return Some(Limit::NONE);
        }
        Limit::new(self.number("LIMIT")?.try_into().ok()?)
    }

    fn lease(&self) -> Option<Lease> {
        let seconds = self.number("EX").map(|seconds| seconds * 1000);
        self.number("PX").or(seconds).and_then(Lease::from_millis)
    }
}

fn holds(number: u64) -> Option<Holds> {
    Holds::new(u32::try_from(number).ok()?)
}
