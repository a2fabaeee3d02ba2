//! What one connection does: it comes into its states, and sends its command.

use super::catalogue::{End, OTHER_DATABASE, State, Wrap};
use super::forms::{Form, Situation};
use super::script::Names;
use redis::Cmd;
use std::fmt;

/// The last command of a connection, by which it is seen that the server has come to its end.
const LAST: &str = "ECHO end";

pub(crate) struct Case {
    pub(crate) states: Vec<&'static State>,
    pub(crate) form: &'static Form,
}

impl Case {
    pub(crate) fn new(form: &'static Form, states: &[&'static State]) -> Self {
        Self {
            states: states.to_vec(),
            form,
        }
    }

    /// All that it sends.
    pub(crate) fn sent(&self, names: &Names) -> Vec<u8> {
        let plain = |line: &&str| names.packed(line, &[]);
        let wraps: Vec<Wrap> = self.states.iter().filter_map(|state| state.wrap).collect();
        let before = self.states.iter().flat_map(|state| state.before);
        let after = self.states.iter().rev().flat_map(|state| state.after);
        let mut bytes: Vec<u8> = before.flat_map(plain).collect();
        bytes.extend(names.packed(self.form.line, &wraps));
        bytes.extend(after.chain(&[LAST]).flat_map(plain));
        bytes
    }

    /// What another client does first, for the key to hold what it is to hold.
    pub(crate) fn prepared(&self, names: &Names) -> Vec<Cmd> {
        let key = match self.form.situation {
            Situation::Free => None,
            Situation::Mine | Situation::MineWaited => {
                Some("LOCK._APPLY @key @me @token 1 600000 @end")
            }
            Situation::Twice => Some("LOCK._APPLY @key @me @token 2 600000 @end"),
            Situation::Theirs | Situation::TheirsWaited | Situation::MineInLine => {
                Some("LOCK._APPLY @key them @token 1 600000 @end")
            }
            Situation::Ending => Some("LOCK._APPLY @key them @token 1 600000 @soon"),
            Situation::Text => Some("SET @key text"),
        };
        let gate = self
            .uses("@gate")
            .then_some("LOCK._APPLY @gate them @token 1 600000 @end");
        let mut commands: Vec<Cmd> = key
            .into_iter()
            .chain(gate)
            .map(|line| names.command(line))
            .collect();
        if self.has_a_user() {
            let mut user = redis::cmd("ACL");
            user.arg("SETUSER").arg(&names.me).arg("on");
            user.arg(format!(">{}", names.me))
                .arg("~*")
                .arg("&*")
                .arg("+@all");
            commands.push(user);
        }
        commands
    }

    /// Who else waits for the lock.
    pub(crate) fn helper(&self) -> Option<&'static str> {
        match self.form.situation {
            Situation::MineWaited | Situation::TheirsWaited => {
                Some("LOCK.ACQUIRE @key helper PX 600000 BLOCK 0")
            }
            Situation::MineInLine => Some("LOCK.ACQUIRE @key @me PX 600000 BLOCK 0"),
            _ => None,
        }
    }

    pub(crate) fn end(&self) -> Option<End> {
        self.states.iter().find_map(|state| state.end)
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.states.iter().any(|state| state.silent)
    }

    /// The database that it may have gone to.
    pub(crate) fn other_database(&self) -> Option<i64> {
        self.uses("SELECT 3").then_some(OTHER_DATABASE)
    }

    pub(crate) fn has_a_user(&self) -> bool {
        self.uses("@me @me")
    }

    fn uses(&self, words: &str) -> bool {
        let mut lines = self.states.iter().flat_map(|state| state.before);
        lines.any(|line| line.contains(words))
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for state in &self.states {
            write!(f, "{} + ", state.name)?;
        }
        write!(f, "{} ({:?})", self.form.line, self.form.situation)
    }
}
