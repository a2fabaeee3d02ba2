//! Commands that are written as lines, with names for what differs from case to case.
//!
//! `@key @gate @nowhere`: the lock that it is about, one that somebody else holds, and a key that is
//! not there, all in one slot; `@me` the caller's owner; `@token` a token, `@early`, `@later` and `@far` others around it;
//! `@end` a time in ten minutes, `@soon` one in a moment; `@address @id` the caller's connection;
//! `@listener` a client that subscribed to invalidations; `@empty @long` owners that are none.

use super::catalogue::Wrap;
use redis::Cmd;
use testbed::effect::packed;
use testbed::state::unix_ms;

/// What the names stand for.
pub(crate) struct Names {
    pub(crate) key: String,
    pub(crate) me: String,
    pub(crate) token: i64,
    pub(crate) address: String,
    pub(crate) id: String,
    pub(crate) listener: String,
}

impl Names {
    pub(crate) fn command(&self, line: &str) -> Cmd {
        let mut command = Cmd::new();
        command.arg(self.words(line));
        command
    }

    /// The bytes of a command on the wire, in whatever it is to be sent in.
    pub(crate) fn packed(&self, line: &str, wraps: &[Wrap]) -> Vec<u8> {
        let mut words = self.words(line);
        for wrap in wraps {
            if let Wrap::Call(by) = wrap {
                words.splice(..0, by.iter().map(|word| word.as_bytes().to_vec()));
            }
        }
        if wraps.contains(&Wrap::Inline) {
            let quoted = words
                .iter()
                .map(|word| format!("\"{}\"", word.escape_ascii()));
            let line: Vec<_> = quoted.collect();
            return format!("{}\r\n", line.join(" ")).into_bytes();
        }
        Cmd::new().arg(words).get_packed_command()
    }

    fn words(&self, line: &str) -> Vec<Vec<u8>> {
        let words: Vec<_> = line
            .split_whitespace()
            .map(|word| self.word(word))
            .collect();
        packed(&words)
    }

    fn word(&self, word: &str) -> String {
        let token = |ahead: i64| (self.token + ahead).to_string();
        let in_ms = |ms: i64| (unix_ms() + ms).to_string();
        match word {
            "@key" => self.key.clone(),
            "@gate" => format!("gate{}", self.tag()),
            "@nowhere" => format!("nowhere{}", self.tag()),
            "@me" => self.me.clone(),
            "@token" => token(0),
            "@early" => token(-5),
            "@later" => token(5),
            "@far" => token(60_000_000),
            "@end" => in_ms(600_000),
            "@soon" => in_ms(20),
            "@address" => self.address.clone(),
            "@id" => self.id.clone(),
            "@listener" => self.listener.clone(),
            "@empty" => String::new(),
            "@long" => "x".repeat(257),
            _ => word.to_owned(),
        }
    }

    /// What makes other keys go to the slot of the key.
    fn tag(&self) -> &str {
        let at = self.key.find('{').expect("a tag");
        &self.key[at..]
    }
}
