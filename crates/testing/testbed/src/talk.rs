//! Sending commands and reading replies, in the words of the tests: `cmd!(c, ...)` sends, and the
//! methods of [`Expect`] say what must return.

use super::effect;
use super::replies::{Grant, LockInfo};
use super::server::Server;
use redis::{Cmd, Connection, ConnectionLike, ServerError, Value};
use std::collections::BTreeMap;
use std::fmt;

/// Sends a command and gives its [`Reply`]. Arguments are anything that the client library can
/// write: text, bytes, numbers; a slice or vector of those stands for as many arguments.
#[macro_export]
macro_rules! cmd {
    ($connection:expr, $name:expr $(, $argument:expr)* $(,)?) => {
        $crate::Talk::send(
            &mut $connection,
            $crate::redis::Cmd::new().arg($name)$(.arg(&$argument))*,
        )
    };
}

/// Sends a command that is answered later: [`Talk::receive`] waits for that.
#[macro_export]
macro_rules! post {
    ($connection:expr, $name:expr $(, $argument:expr)* $(,)?) => {
        $crate::Talk::post(
            &mut $connection,
            $crate::redis::Cmd::new().arg($name)$(.arg(&$argument))*,
        )
    };
}

/// Ends the test here, and says so, where the server or this machine lacks what it needs.
#[macro_export]
macro_rules! needs {
    ($condition:expr) => {
        if !($condition) {
            println!("left out: it needs {}", stringify!($condition));
            return;
        }
    };
}

/// A command that is written as one line, with blanks between its words. The effect in
/// `LOCK._APPLY key owner token holds lease-ms deadline-ms` is packed.
pub fn line(words: &str) -> Cmd {
    let mut command = Cmd::new();
    command.arg(self::words(words));
    command
}

/// The words of such a line.
pub fn words(line: &str) -> Vec<Vec<u8>> {
    let words: Vec<_> = line.split_whitespace().collect();
    effect::packed(&words)
}

/// Sends a command that is written as one line.
#[track_caller]
pub fn run(c: &mut Connection, words: &str) -> Reply {
    c.send(&line(words))
}

/// Sends commands, each written as one line, in one write.
#[track_caller]
pub fn post_all(c: &mut Connection, lines: impl IntoIterator<Item = impl AsRef<str>>) {
    let lines = lines.into_iter();
    let commands = lines.map(|words| line(words.as_ref()).get_packed_command());
    let bytes: Vec<u8> = commands.flatten().collect();
    c.send_packed_command(&bytes)
        .expect("a connection to write to");
}

/// As [`post_all`], and gives the replies.
#[track_caller]
pub fn at_once(c: &mut Connection, lines: &[impl AsRef<str>]) -> Vec<Reply> {
    post_all(c, lines);
    lines.iter().map(|_| c.receive()).collect()
}

/// Runs commands in one transaction, in which the server's time stands still, and gives their replies.
#[track_caller]
pub fn transaction(c: &mut Connection, lines: &[impl AsRef<str>]) -> Vec<Value> {
    let lines = lines.iter().map(AsRef::as_ref);
    let all: Vec<&str> = ["MULTI"].into_iter().chain(lines).chain(["EXEC"]).collect();
    let exec = at_once(c, &all).pop().expect("a reply to EXEC");
    exec.items()
}

/// A server, and a connection to it.
#[track_caller]
pub fn started() -> (Server, Connection) {
    Server::builder().started()
}

/// A server on which `a` holds `k`.
#[track_caller]
pub fn held() -> (Server, Connection) {
    Server::builder().held()
}

/// The owners in line for a lock, the first one first.
#[track_caller]
pub fn waiters(c: &mut Connection, key: &str) -> Vec<String> {
    let waiters = cmd!(*c, "LOCK.WAITERS", key).items();
    let owner = |waiter: Value| waiter.fields()["owner"].clone().text();
    waiters.into_iter().map(owner).collect()
}

/// An error reply, as the server wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(String);

impl Refusal {
    /// The first word, which is for programs.
    pub fn code(&self) -> &str {
        self.0.split(' ').next().unwrap_or_default()
    }

    /// The whole line.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl From<&ServerError> for Refusal {
    /// The client library takes the first word off, and knows some of them by other names.
    fn from(error: &ServerError) -> Self {
        match error.details() {
            Some(details) => Self(format!("{} {details}", error.code())),
            None => Self(error.code().to_owned()),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The server's reply: a value or an error.
pub type Reply = Result<Value, Refusal>;

/// Sending and receiving. A connection that fails is a failed test.
pub trait Talk {
    /// Sends a command and waits for its reply.
    fn send(&mut self, command: &Cmd) -> Reply;
    /// Sends a command without waiting, for one that the server will answer later.
    fn post(&mut self, command: &Cmd);
    /// Waits for the reply to the oldest posted command.
    fn receive(&mut self) -> Reply;
}

impl Talk for Connection {
    #[track_caller]
    fn send(&mut self, command: &Cmd) -> Reply {
        let line = || String::from_utf8_lossy(&command.get_packed_command()).into_owned();
        let value = self.req_command(command);
        value
            .unwrap_or_else(|e| panic!("no reply to {:?}: {e}", line()))
            .reply()
    }

    #[track_caller]
    fn post(&mut self, command: &Cmd) {
        self.send_packed_command(&command.get_packed_command())
            .expect("a connection to write to");
    }

    #[track_caller]
    fn receive(&mut self) -> Reply {
        self.recv_response()
            .unwrap_or_else(|e| panic!("no reply: {e}"))
            .reply()
    }
}

/// A test's expectation of a reply, or of a value within one. Each panics with what came instead.
pub trait Expect: Sized {
    /// As a reply: an error value becomes a [`Refusal`].
    fn reply(self) -> Reply;

    /// Any value, but no error.
    #[track_caller]
    fn value(self) -> Value {
        self.reply()
            .unwrap_or_else(|refusal| panic!("refused: {refusal}"))
    }

    /// An error of this code; gives its whole text.
    #[track_caller]
    fn refused(self, code: &str) -> String {
        match self.reply() {
            Ok(value) => panic!("{code} expected, not {value:?}"),
            Err(refusal) => {
                let told = refusal.code();
                assert_eq!(told, code, "the error's first word in {refusal:?}");
                refusal.0
            }
        }
    }

    /// Nil.
    #[track_caller]
    fn nil(self) {
        assert_eq!(self.value(), Value::Nil);
    }

    /// `OK`.
    #[track_caller]
    fn okay(self) {
        assert_eq!(self.value(), Value::Okay);
    }

    /// An integer.
    #[track_caller]
    fn int(self) -> i64 {
        match self.value() {
            Value::Int(number) => number,
            other => panic!("an integer expected, not {other:?}"),
        }
    }

    /// An integer that this type can hold: one of no sign, or a small one.
    #[track_caller]
    fn number<T: TryFrom<i64>>(self) -> T {
        let number = self.int();
        let fits = T::try_from(number).ok();
        fits.unwrap_or_else(|| panic!("{number} is out of range"))
    }

    /// A bulk string's bytes.
    #[track_caller]
    fn bytes(self) -> Vec<u8> {
        match self.value() {
            Value::BulkString(bytes) => bytes,
            other => panic!("a bulk string expected, not {other:?}"),
        }
    }

    /// Text of any kind of string.
    #[track_caller]
    fn text(self) -> String {
        match self.value() {
            Value::SimpleString(text) | Value::VerbatimString { text, .. } => text,
            Value::Okay => "OK".to_owned(),
            other => String::from_utf8(other.bytes()).expect("text"),
        }
    }

    /// An array's or a set's elements.
    #[track_caller]
    fn items(self) -> Vec<Value> {
        match self.value() {
            Value::Array(items) | Value::Set(items) => items,
            other => panic!("an array expected, not {other:?}"),
        }
    }

    /// A map's fields: a map in RESP3, a flat array in RESP2.
    #[track_caller]
    fn fields(self) -> BTreeMap<String, Value> {
        match self.value() {
            Value::Map(pairs) => pairs
                .into_iter()
                .map(|(name, value)| (name.text(), value))
                .collect(),
            Value::Array(flat) => {
                assert!(flat.len() % 2 == 0, "a map expected, not {flat:?}");
                flat.chunks(2)
                    .map(|pair| (pair[0].clone().text(), pair[1].clone()))
                    .collect()
            }
            other => panic!("a map expected, not {other:?}"),
        }
    }

    /// A grant.
    #[track_caller]
    fn grant(self) -> Grant {
        Grant::try_from(self.value()).unwrap_or_else(|e| panic!("{e}"))
    }

    /// The reply of `LOCK.INFO` for a held lock.
    #[track_caller]
    fn lock_info(self) -> LockInfo {
        LockInfo::try_from(self.value()).unwrap_or_else(|e| panic!("{e}"))
    }
}

impl Expect for Reply {
    fn reply(self) -> Reply {
        self
    }
}

impl Expect for Value {
    fn reply(self) -> Reply {
        match self {
            Value::ServerError(error) => Err(Refusal::from(&error)),
            value => Ok(value),
        }
    }
}
