//! Examples as text, run on the model and the code side by side.
//!
//! ```text
//! ann acquire limit 5 px 100 -> holds 1 end 100100; bob acquire block 50 -> waits    # what this tells
//! ann renew token own raise own+5 -> token 100000005
//! pexpire 500; persist; del; pass 100; tick; disconnect 0; write 0; send; abandon 0; unsent 0
//! cat acquire holds 1 session 0 queue 50 -> waits; leave 0; return 0; end 0    # the session: passed over, back, gone
//! = ann bob; = ann holds 2 limit 0; = line cat dan; = expiry 130000; = call 0 NOTALONE; = free
//! ```
//! A line that begins with `=` says who holds the lock, lowest token first, or how one of them holds it. The wall
//! clock begins at 100 s. All is about one lock, which is free at first. A limit of 0 is none.

use crate::model::call::{Operation, Wait};
use crate::model::lock::{
    Amount, Call, Event, Holder, Key, MICROS, NEVER, NONE, Reply, Server, Settings, Verb,
};
use crate::properties::choices::Trace;
use crate::properties::queue::SideBySide;

const KEY: Key = (0, b'a');
const OWNERS: [&str; 4] = ["ann", "bob", "cat", "dan"];

/// Runs steps one after the other.
pub(super) fn story(text: &str) {
    let mut script = Script::start(Words::new(""));
    text.lines().for_each(|line| script.line(line));
}

/// Runs each of these lines after the same beginning.
pub(super) fn each(beginning: &str, lines: &str) {
    lines
        .lines()
        .for_each(|line| story(&format!("{beginning}\n{line}")));
}

struct Script {
    both: SideBySide,
    /// The steps so far.
    trace: Trace<String>,
}

/// The rest of the words of a line.
struct Words<'a>(std::iter::Peekable<std::str::SplitWhitespace<'a>>);

impl<'a> Words<'a> {
    fn new(text: &'a str) -> Self {
        Self(text.split_whitespace().peekable())
    }

    fn next(&mut self) -> &'a str {
        self.0.next().unwrap_or_default()
    }

    fn number(&mut self) -> u64 {
        let word = self.next();
        word.parse()
            .unwrap_or_else(|_| panic!("a number, not {word:?}"))
    }

    fn index(&mut self) -> usize {
        usize::try_from(self.number()).expect("an index")
    }

    /// Skips a word where it is the next.
    fn has(&mut self, word: &str) -> bool {
        self.0.next_if_eq(&word).is_some()
    }
}

fn owner(name: &str) -> Option<usize> {
    OWNERS.iter().position(|owner| *owner == name)
}

fn limit(number: u64) -> u64 {
    if number == 0 { NONE } else { number }
}

impl Script {
    /// `start now MICROS seen TOKEN lead MS`
    fn start(mut words: Words<'_>) -> Self {
        let (mut now, mut seen) = (100_000_000, 0);
        let mut settings = Settings {
            default_lease: 30_000,
            max_lead: 5_000,
            max_holders: 1_000,
        };
        loop {
            match words.next() {
                "now" => now = words.number(),
                "seen" => seen = words.number(),
                "lead" => settings.max_lead = words.number(),
                _ => break,
            }
        }
        let both = SideBySide::start(Server::new(now, seen, settings));
        Self {
            both,
            trace: Trace(Vec::new()),
        }
    }

    fn line(&mut self, line: &str) {
        let (text, _comment) = line.split_once('#').unwrap_or((line, ""));
        text.split(';').for_each(|step| self.step(step));
    }

    fn step(&mut self, step: &str) {
        self.trace.0.push(step.trim().to_owned());
        let (text, expected) = step.split_once("->").unwrap_or((step, ""));
        let mut words = Words::new(text);
        match words.next() {
            "" => {}
            "start" => *self = Self::start(words),
            "=" => self.check(&mut words),
            "fence" => {
                let token = self.token(&mut words, 0);
                let (owner, token, verb) = (0, Some(token), Verb::Fence);
                let call = Call {
                    key: KEY,
                    owner,
                    token,
                    verb,
                };
                self.call(call, None, expected);
            }
            name if owner(name).is_some() => self.command(name, words, expected),
            event => self.event(event, &mut words),
        }
    }

    fn holder(&self, owner: usize) -> Option<Holder> {
        self.both.model.locks.holder(KEY, owner)
    }

    /// `own`, `own+5`, `own-5` or a number.
    fn token(&self, words: &mut Words<'_>, owner: usize) -> u64 {
        let word = words.next();
        let Some(by) = word.strip_prefix("own") else {
            return Words::new(word).number();
        };
        let own = self.holder(owner).expect("a holder").token;
        own.saturating_add_signed(by.parse().unwrap_or_default())
    }

    fn command(&mut self, name: &str, mut words: Words<'_>, expected: &str) {
        let owner = owner(name).expect("an owner");
        let verb = words.next();
        let (mut px, mut wanted, mut holds, mut wait) = (None, None, None, None);
        let mut session = None;
        let (mut token, mut raise, mut all) = (None, None, false);
        loop {
            match words.next() {
                "px" => px = Some(words.number()),
                "shared" => wanted = Some(NONE),
                "limit" => wanted = Some(limit(words.number())),
                "holds" => holds = Some(words.number()),
                "block" => wait = Some((words.number(), false)),
                "queue" => wait = Some((words.number(), true)),
                "session" => session = Some(words.index()),
                "token" => token = Some(self.token(&mut words, owner)),
                "raise" => raise = Some(self.token(&mut words, owner)),
                "all" => all = true,
                "" => break,
                word => panic!("{word}?"),
            }
        }
        let (limit, in_line) = (wanted.unwrap_or(1), false);
        let verb = match (verb, holds) {
            ("acquire", holds) => Verb::Acquire {
                px,
                limit,
                holds,
                in_line,
            },
            ("renew", _) => Verb::Renew {
                px,
                limit: wanted,
                raise,
            },
            ("release", _) if all => Verb::Release(Amount::All),
            ("release", Some(count)) => Verb::Release(Amount::DownTo(count)),
            ("release", None) => Verb::Release(Amount::One),
            _ => panic!("{verb}?"),
        };
        let call = Call {
            key: KEY,
            owner,
            token,
            verb,
        };
        let wait = wait.map(|(millis, is_queued)| Wait {
            millis,
            session,
            is_queued,
        });
        self.call(call, wait, expected);
    }

    fn call(&mut self, call: Call, wait: Option<Wait>, expected: &str) {
        let waiting = self.both.model.waiting().count();
        let reply = self.both.apply(Operation::Call(call, wait));
        let mut words = Words::new(expected);
        match reply.expect("a reply") {
            _ if expected.is_empty() => {}
            Reply::Grant { .. } => {
                is_as_said(&self.holder(call.owner).expect("a holder"), &mut words);
            }
            Reply::Left(left) => assert_eq!(left, words.number()),
            Reply::Ok => assert!(words.has("OK")),
            Reply::Nil => {
                let waits = self.both.model.waiting().count() > waiting;
                assert!(words.has(if waits { "waits" } else { "nil" }));
            }
            Reply::Error(error) => assert_eq!(error, expected.trim()),
        }
    }

    fn event(&mut self, event: &str, words: &mut Words<'_>) {
        let operation = match event {
            "pass" => Operation::Pass(words.number()),
            "tick" => Operation::Tick,
            "disconnect" => Operation::Disconnect(words.index()),
            "write" => Operation::Write(words.index()),
            "leave" => Operation::Leave(words.index()),
            "return" => Operation::Return(words.index()),
            "end" => Operation::EndSession(words.index()),
            "send" => Operation::Send,
            "abandon" => Operation::Abandon(words.index()),
            "confirm" => Operation::Confirm(words.index()),
            "unsent" => Operation::Unsent(words.index()),
            event => Operation::Event(match event {
                "clock" => Event::Clock(words.number() * MICROS),
                "pexpire" => Event::Pexpire(KEY, words.number()),
                "persist" => Event::Persist(KEY),
                "del" => Event::Del(KEY),
                "seen" => Event::Seen(words.number()),
                "max-holders" => Event::MaxHolders(words.number()),
                "restore" => Event::Restore(KEY, restored(words)),
                _ => panic!("{event}?"),
            }),
        };
        self.both.apply(operation);
    }

    fn check(&self, words: &mut Words<'_>) {
        let model = &self.both.model;
        let numbers = |words: &mut Words<'_>| {
            let names =
                std::iter::from_fn(|| owner(words.0.next_if(|word| owner(word).is_some())?));
            names.collect::<Vec<_>>()
        };
        if words.has("line") {
            let line_of_lock: Vec<_> = model.waiting_at(KEY).map(|call| call.owner).collect();
            assert_eq!(line_of_lock, numbers(words));
        } else if words.has("expiry") {
            assert_eq!(model.locks.locks[&KEY].expiry, words.number());
        } else if words.has("call") {
            self.check_call(words.index(), words.next());
        } else if words.has("free") {
            assert!(model.locks.locks.is_empty());
        } else {
            let holders = model.locks.holders(KEY);
            let named = numbers(words);
            if words.0.peek().is_some() {
                let holder = self.holder(named[0]).expect("a holder");
                is_as_said(&holder, words);
            } else {
                let owners: Vec<_> = holders.iter().map(|holder| holder.owner).collect();
                assert_eq!(owners, named);
            }
        }
    }

    /// A call has ended so, or is in this stage.
    fn check_call(&self, number: usize, expected: &str) {
        let (mut calls, mut ended) = (self.both.model.calls.iter(), self.both.model.ended.iter());
        let stage = calls
            .find(|call| call.number == number)
            .map(|call| call.stage);
        let end = ended.find(|ended| ended.0 == number);
        let told = format!("{stage:?} {end:?}");
        assert!(told.contains(expected), "{told}");
    }
}

fn is_as_said(holder: &Holder, words: &mut Words<'_>) {
    loop {
        match words.next() {
            "token" => assert_eq!(holder.token, words.number()),
            "holds" => assert_eq!(holder.holds, words.number()),
            "lease" => assert_eq!(holder.lease, words.number()),
            "limit" => assert_eq!(holder.limit, limit(words.number())),
            "end" if words.has("never") => assert_eq!(holder.end, NEVER),
            "end" => assert_eq!(holder.end, words.number()),
            "" => return,
            word => panic!("{word}? {holder:?}"),
        }
    }
}

/// `restore ann holds 3 token 7 bob limit 2`: each name begins a holder.
fn restored(words: &mut Words<'_>) -> Vec<Holder> {
    let mut holders: Vec<Holder> = Vec::new();
    loop {
        let word = words.next();
        if let Some(owner) = owner(word) {
            let token = holders.last().map_or(90_000_000, |last| last.token + 1);
            let (holds, lease, limit, end) = (1, 30_000, 1, 120_000);
            holders.push(Holder {
                owner,
                grant: 0,
                token,
                holds,
                lease,
                limit,
                end,
            });
            continue;
        }
        if word.is_empty() {
            return holders;
        }
        let last = holders.last_mut().expect("a holder");
        match word {
            "token" => last.token = words.number(),
            "holds" => last.holds = words.number(),
            "lease" => last.lease = words.number(),
            "limit" => last.limit = limit(words.number()),
            "end" if words.has("never") => last.end = NEVER,
            "end" => last.end = words.number(),
            _ => panic!("{word}?"),
        }
    }
}
