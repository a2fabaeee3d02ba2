//! Commands and their replies.

use crate::locks::is_wrong;
use redis::{Connection, ConnectionLike, Value as Reply};
use serde_json::{Value, json};
use std::io::{self, Write};
use testbed::Expect;

/// The class of an error, and its text.
pub(super) type Error = (&'static str, String);

pub(super) fn send(connection: &mut Connection, words: &[&str]) -> Result<Reply, Error> {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(*word);
    }
    match connection.req_command(&command) {
        Ok(Reply::ServerError(error)) => Err(classify(&error.into())),
        Ok(reply) => Ok(reply),
        Err(error) => Err(classify(&error)),
    }
}

pub(super) fn token_of(part: &Reply) -> u64 {
    u64::try_from(part.clone().int()).expect("a positive number")
}

/// The class that an error is told as; `no-session` is told to nobody.
pub(super) fn classify(error: &redis::RedisError) -> Error {
    let text = format!("{} {error}", error.code().unwrap_or_default());
    let class = match error.code() {
        Some("NOSESSION") => "no-session",
        Some("NOTHELD" | "NOTOWNER" | "FENCED") => "lost",
        Some("DEADLOCK") => "deadlock",
        Some("NOTALONE") => "not-alone",
        Some("WRONGTYPE") => "misuse",
        Some("NOAUTH" | "WRONGPASS" | "NOPERM") => "refused",
        _ if text.contains("unknown command") => {
            return ("refused", "is the module lock loaded?".to_owned());
        }
        _ if text.contains("uthentication") || text.contains("NOAUTH") => "refused",
        _ => "unavailable",
    };
    (class, text)
}

pub(super) fn tell_loss(grant: u64) {
    if !is_wrong("keeps-quiet") {
        tell(&json!({ "event": "lost", "grant": grant }));
    }
}

pub(super) fn tell(line: &Value) {
    let _ = writeln!(io::stdout(), "{line}");
}
