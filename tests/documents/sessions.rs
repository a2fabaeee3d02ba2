//! What a document shows as typed into redis-cli is typed into one, and what it shows as answered must be
//! answered. A page has one server, on which everything is typed from top to bottom.
//!
//! ```text
//! redis> LOCK.ACQUIRE lock:a worker PX 30000     typed into the terminal `redis`
//! 1) (integer) 1795401917011553                  its reply; a token stands for whatever token comes
//! second> LOCK.ACQUIRE lock:a other BLOCK 0      no reply below: the call waits
//! redis> LOCK.RELEASE lock:a worker
//! (integer) 0
//! second>                                        below is what `second` is answered now
//! second> ^C                                     `second` is killed, and its connection closes
//! ```
//!
//! Tokens, random owners and times are not compared, but a token that stands twice in a page must be the
//! same each time, and two tokens must be two. A reply line that ends with `…` tells the beginning. The terminal `resp3` speaks RESP3.

use crate::markdown::{Block, Page, pages};
use crate::terminal::Terminal;
use std::collections::{BTreeMap, BTreeSet};
use testbed::{Expect, Server, blocked_clients, cmd, eventually};

const TERMINALS: &[&str] = &["redis", "first", "second", "third", "resp3"];

/// Typed into a terminal to end it.
const KILLED: &str = "^C";

/// Fields whose numbers are other ones each time, unless they are negative.
const TIMES: &[&str] = &[
    "ttl-ms",
    "sure-ms",
    "held-ms",
    "waited-ms",
    "left-ms",
    "client-id",
    "total-wait-ms",
    "longest-wait-ms",
];

/// A token has as many digits as the time in microseconds.
const TOKEN_DIGITS: usize = 16;
/// How far, in microseconds, a token that was not replied may be ahead of one that was.
const FURTHEST_AHEAD: u64 = 1_000;

#[test]
fn what_is_typed_is_answered_as_the_pages_say() {
    let mut checked = Vec::new();
    for page in pages() {
        let blocks = page.blocks();
        let sessions: Vec<_> = blocks.iter().filter(|block| is_session(block)).collect();
        if !sessions.is_empty() {
            let mut session = Session::new(&page);
            for block in sessions {
                session.run(block);
            }
            checked.push(page.path.display().to_string());
        }
    }
    let enough = checked.contains(&"README.md".to_owned()) && checked.len() > 5;
    assert!(enough, "{checked:?}");
}

fn is_session(block: &Block<'_>) -> bool {
    block.lines.iter().any(|line| typed(line).is_some())
}

/// The terminal and what is typed into it, if the line is a prompt with something behind it or nothing.
#[track_caller]
fn typed(line: &str) -> Option<(&'static str, &str)> {
    let (name, words) = line.split_once('>')?;
    let named = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".:-".contains(&byte));
    if !named || !(words.is_empty() || words.starts_with(' ')) {
        return None;
    }
    let known = TERMINALS.iter().find(|known| **known == name);
    let known = known.unwrap_or_else(|| panic!("{line:?}: no terminal is called {name:?}"));
    Some((known, words.trim()))
}

struct Session<'page> {
    page: &'page Page,
    // Before the server: it ends first.
    terminals: BTreeMap<&'static str, Terminal>,
    server: Server,
    /// The terminals whose call waits, or whose reply to such a call was not looked at yet.
    waiting: Vec<&'static str>,
    /// The tokens of the page and the ids of its sessions, and what they are on this server.
    tokens: BTreeMap<u64, u64>,
    /// The ids of sessions on this server: of any number of digits.
    ids: BTreeSet<u64>,
}

impl<'page> Session<'page> {
    fn new(page: &'page Page) -> Self {
        Self {
            page,
            terminals: BTreeMap::new(),
            server: Server::start(),
            waiting: Vec::new(),
            tokens: BTreeMap::new(),
            ids: BTreeSet::new(),
        }
    }

    fn run(&mut self, block: &Block<'_>) {
        let mut lines = (block.line..).zip(&block.lines).peekable();
        while let Some((number, line)) = lines.next() {
            let at = format!("{}:{number}: {line}", self.page.path.display());
            let (name, words) = typed(line).unwrap_or_else(|| panic!("{at}: a reply to nothing"));
            let mut expected = Vec::new();
            while let Some((_, line)) = lines.next_if(|(_, line)| typed(line).is_none()) {
                expected.push(*line);
            }
            if words == KILLED {
                self.kill(name, &at);
                continue;
            }
            if words.is_empty() {
                let place = self.waiting.iter().position(|waiting| *waiting == name);
                self.waiting
                    .remove(place.unwrap_or_else(|| panic!("{at}: nothing waits there")));
            } else {
                let before = blocked_clients(&self.server);
                let words = self.with_tokens(words);
                self.terminal(name).enter(&words);
                if expected.is_empty() {
                    self.waiting.push(name);
                    let waits = || blocked_clients(&self.server) > before;
                    eventually(waits, &format!("the call to wait: {at}"));
                    continue;
                }
            }
            let reply = self.terminal(name).reply();
            self.compare(&at, words, &expected, &reply);
        }
    }

    /// Ends a terminal. The server has closed its connection afterwards.
    fn kill(&mut self, name: &'static str, at: &str) {
        assert!(!self.waiting.contains(&name), "{at}: its call waits");
        self.terminal(name).enter("CLIENT ID");
        let reply = self.terminal(name).reply().remove(0);
        let id = reply.strip_prefix("(integer) ").expect("an id");
        drop(self.terminals.remove(name));
        let mut c = self.server.connection();
        let is_closed = || cmd!(c, "CLIENT", "LIST", "ID", id).text().is_empty();
        eventually(is_closed, &format!("the connection to close: {at}"));
    }

    fn terminal(&mut self, name: &'static str) -> &mut Terminal {
        let options: &[&str] = if name == "resp3" { &["-3"] } else { &[] };
        let server = &self.server;
        let open = || Terminal::open(server, options);
        self.terminals.entry(name).or_insert_with(open)
    }

    /// The words with the tokens of this server in the place of those of the page. One that was not
    /// replied, such as a token to raise to, is as far ahead of one that was.
    fn with_tokens(&self, words: &str) -> String {
        let here = |word: &str| {
            let number = token(word)?;
            let (page, server) = self.tokens.range(..=number).next_back()?;
            let ahead = number - page;
            (ahead < FURTHEST_AHEAD).then(|| (server + ahead).to_string())
        };
        let words = words.split(' ');
        let words = words.map(|word| here(word).unwrap_or_else(|| word.to_owned()));
        words.collect::<Vec<_>>().join(" ")
    }

    fn compare(&mut self, at: &str, words: &str, expected: &[&str], reply: &[String]) {
        if words.starts_with("LOCK.SESSION OPEN") {
            let id = |line: &String| line.strip_prefix("(integer) ")?.parse::<u64>().ok();
            self.ids.extend(reply.iter().filter_map(id));
        }
        let differ = || format!("{at}\nexpected: {expected:#?}\nanswered: {reply:#?}");
        assert_eq!(expected.len(), reply.len(), "{}", differ());
        let mut is_time = words.starts_with("PTTL");
        for (expected, answered) in expected.iter().zip(reply) {
            is_time |= TIMES
                .iter()
                .any(|name| expected.contains(&format!("\"{name}\" =>")));
            let (shown, tokens) = shape(expected, is_time, &BTreeSet::new());
            let (came, actual) = shape(answered, is_time, &self.ids);
            let same = match shown.strip_suffix('…') {
                Some(beginning) => came.starts_with(beginning),
                None => shown == came,
            };
            assert!(same, "{}", differ());
            for (token, actual) in tokens.into_iter().zip(actual) {
                let known = self.tokens.entry(token).or_insert(actual);
                assert_eq!(*known, actual, "another token: {}", differ());
                let times = self.tokens.values().filter(|known| **known == actual);
                assert_eq!(times.count(), 1, "the same token: {}", differ());
            }
            is_time = TIMES
                .iter()
                .any(|name| expected.ends_with(&format!("\"{name}\"")));
        }
    }
}

/// A line of a reply with placeholders for what differs each time, and the tokens in it.
fn shape(line: &str, is_time: bool, ids: &BTreeSet<u64>) -> (String, Vec<u64>) {
    let mut tokens = Vec::new();
    let mut shape = String::new();
    for word in line.split_inclusive([' ', '"']) {
        let text = word.trim_end_matches([' ', '"']);
        let digits = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty();
        let id = text.parse().ok().filter(|id| ids.contains(id));
        if let Some(token) = id.or_else(|| token(text)) {
            tokens.push(token);
            shape += &word.replace(text, "TOKEN");
        } else if digits && is_time {
            shape += &word.replace(text, "TIME");
        } else if is_uuid(text) {
            shape += &word.replace(text, "UUID");
        } else {
            shape += word;
        }
    }
    (shape, tokens)
}

fn token(text: &str) -> Option<u64> {
    (text.len() == TOKEN_DIGITS).then(|| text.parse().ok())?
}

fn is_uuid(text: &str) -> bool {
    let parts: Vec<_> = text.split('-').map(str::len).collect();
    parts == [8, 4, 4, 4, 12]
}
