//! Questions to one server. The login may lack the rights for some of them.

use crate::finding::{Seen, Unseen, run, unseen};
use redis::Value;
use redis_lock_tool::{Answer, Link, Target, command, text};

/// A connection and its user. After the connection fails, all later questions count as unseen.
pub(crate) struct Asker {
    link: Link,
    me: String,
    lost: Option<String>,
}

impl Asker {
    /// Connects to a server. The error says why that failed.
    pub(crate) fn connect(target: &Target) -> Result<Self, String> {
        let mut link = target.link();
        let told = link.ask(&command("ACL WHOAMI"))?.map(|value| text(&value));
        let known = target.login().0.unwrap_or("default").to_owned();
        let (me, lost) = (told.unwrap_or(known), None);
        Ok(Self { link, me, lost })
    }

    /// Uses the connection, unless it has failed.
    pub(crate) fn with<T>(&mut self, act: impl FnOnce(&mut Link) -> Result<T, String>) -> Seen<T> {
        let done = match self.lost.clone() {
            Some(why) => Err(why),
            None => act(&mut self.link),
        };
        done.map_err(|why| unseen(self.lost.insert(why).clone()))
    }

    /// Sends a command line, whose words in capitals are the name of the command. Returns the reply, or why the server
    /// refused the command and the rights that would allow it.
    pub(crate) fn look(&mut self, line: &str, rights: &str) -> Seen<Value> {
        let is_command = |word: &&str| word.bytes().all(|byte| byte.is_ascii_uppercase());
        let what: Vec<_> = line.split(' ').take_while(is_command).collect();
        let answer = self.with(|link| link.ask(&command(line)))?;
        self.allowed(answer, &what.join(" "), rights)
    }

    /// Returns the reply in an answer, or why the server refused the command and the rights that would allow it.
    pub(crate) fn allowed(&self, answer: Answer, what: &str, rights: &str) -> Seen<Value> {
        answer.map_err(|error| {
            let allow = run(format!("ACL SETUSER {} {rights}", self.me));
            let is_right = error.starts_with("NOPERM");
            let allow = if is_right { allow } else { Vec::new() };
            Unseen::Refused(format!("{what} is refused: {error}"), allow)
        })
    }

    /// The error of the connection, if it has failed.
    pub(crate) fn end(self) -> Result<(), String> {
        self.lost.map_or(Ok(()), Err)
    }
}
