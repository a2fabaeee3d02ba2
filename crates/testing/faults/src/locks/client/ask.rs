//! One call: sent to where its key is, followed if it is sent on, and recorded.

use super::Client;
use crate::locks::line::{Answer, Line};
use crate::locks::protocol;
use history::{
    Acquire, Action, Call, InSession, Moment, Outcome, Refusal, Register, Write, Written,
};
use redis::Cmd;
use std::thread::sleep;
use std::time::Duration;

/// The register in the server itself: a list that grows behind `LOCK.FENCE`.
const SCRIPT: &str = "redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
    return redis.call('RPUSH', KEYS[2], ARGV[1])";

/// How long a client rests before it tries again a server that is down or does not take commands.
const REST: Duration = Duration::from_millis(10);
/// How often a client lets itself be sent on before it gives a call up.
const REDIRECTIONS: usize = 5;

/// The answer, and the two moments between which it was given.
pub(super) struct Heard {
    pub(super) sent: Moment,
    pub(super) ended: Moment,
    pub(super) what: What,
}

pub(super) enum What {
    Value(redis::Value),
    Error(testbed::Refusal),
    Lost,
    GivenBack,
    /// Nobody took the call.
    Nothing,
}

impl Client<'_> {
    /// Makes a call and records it.
    pub(super) fn ask(&mut self, key: &str, owner: &str, action: Action, wait_ms: u64) -> Outcome {
        let command = protocol::command(key, owner, &action, wait_ms);
        self.ask_so(key, owner, action, &command)
    }

    /// Makes a call by this command and records it.
    pub(super) fn ask_so(
        &mut self,
        key: &str,
        owner: &str,
        action: Action,
        command: &Cmd,
    ) -> Outcome {
        let heard = self.hear(key, command);
        if matches!(action, Action::Acquire(Acquire { block: true, .. })) {
            // Others stood behind it until then.
            for span in std::mem::take(&mut self.sent_on) {
                self.record(key, owner, action.clone(), span, Outcome::Untouched);
            }
        }
        let mut ended = heard.ended;
        let mut outcome = match heard.what {
            What::Value(value) => protocol::outcome(&action, value),
            What::Error(error) => self.judge(&error),
            What::Lost => Outcome::Lost,
            What::GivenBack => Outcome::GivenBack,
            What::Nothing => Outcome::Untouched,
        };
        if self.stage.habits.wait
            && matches!(action, Action::Acquire(_) | Action::Renew(_))
            && matches!(outcome, Outcome::Grant(_))
        {
            if !self.is_replicated(key) {
                outcome = Outcome::Lost;
            }
            ended = self.stage.run.now();
        }
        self.record(key, owner, action, (heard.sent, ended), outcome.clone());
        outcome
    }

    /// Records a call that names no session.
    pub(super) fn record(
        &mut self,
        key: &str,
        owner: &str,
        action: Action,
        (sent, ended): (Moment, Moment),
        outcome: Outcome,
    ) {
        let call = Call::sent(self.number, key, owner, action, sent);
        self.calls.push(call.ended(ended, outcome));
    }

    /// The call that was recorded last names this session.
    pub(super) fn names_session(&mut self, id: u64, queued: bool) {
        let last = self.calls.last_mut().expect("a call");
        last.session = Some(InSession { id, queued });
    }

    /// Writes to the register in the server, behind the token.
    pub(super) fn write_by_script(&mut self, key: &str, token: u64) {
        let mut script = redis::cmd("EVAL");
        script
            .arg(SCRIPT)
            .arg(2)
            .arg(key)
            .arg(format!("{{{key}}}:taken"))
            .arg(token);
        let heard = self.hear(key, &script);
        let (written, outcome) = match heard.what {
            What::Value(_) => (Written::Taken, Outcome::Done),
            What::Error(e) if is_fenced(&e) => {
                (Written::Refused, Outcome::Refused(Refusal::Fenced))
            }
            What::Error(_) | What::Nothing => (Written::Untouched, Outcome::Untouched),
            What::Lost | What::GivenBack => (Written::Unknown, Outcome::Lost),
        };
        let span = (heard.sent, heard.ended);
        self.record_write(Register::Script, key, token, span, written);
        self.record(key, "", Action::Fence(token), span, outcome);
    }

    /// Writes to the register in the database.
    pub(super) fn write_by_sql(&mut self, key: &str, token: u64) {
        let sent = self.stage.run.now();
        let stage = self.stage;
        let sql = self.sql.get_or_insert_with(|| stage.sql.connection());
        let written = sql.write(key, token);
        let span = (sent, self.stage.run.now());
        self.record_write(Register::Sql, key, token, span, written);
    }

    fn record_write(
        &mut self,
        register: Register,
        key: &str,
        token: u64,
        (sent, ended): (Moment, Moment),
        written: Written,
    ) {
        self.writes.push(Write {
            register,
            key: key.to_owned(),
            token,
            sent,
            ended,
            written,
        });
    }

    /// Sends to where the key is, and goes where it is told to.
    pub(super) fn hear(&mut self, key: &str, command: &Cmd) -> Heard {
        let mut node = self.stage.deployment.home(key);
        let mut is_asking = false;
        self.sent_on.clear();
        for _ in 0..REDIRECTIONS {
            let Some(mut line) = self.line(node) else {
                // Perhaps another one knows who serves the key now.
                self.stage.deployment.learn(key, node + 1);
                sleep(REST);
                break;
            };
            let sent = self.stage.run.now();
            let answer = if is_asking {
                line.ask_after_asking(command)
            } else {
                line.ask(command)
            };
            let heard = |what, ended| Heard { sent, ended, what };
            let now = self.stage.run.now();
            match answer {
                Answer::Value(value) => {
                    let id = line.id();
                    self.lines.insert(node, line);
                    self.answered_by = node;
                    let is_nil = value == redis::Value::Nil;
                    let what = if is_nil && self.stage.was_unblocked(id, sent) {
                        What::GivenBack
                    } else {
                        What::Value(value)
                    };
                    return heard(what, now);
                }
                Answer::Error(error) => {
                    self.lines.insert(node, line);
                    let Some(next) = self.sent_to(&error) else {
                        return heard(What::Error(error), now);
                    };
                    is_asking = error.code() == "ASK";
                    node = next;
                    self.sent_on.push((sent, now));
                    if !is_asking {
                        self.stage.deployment.learn(key, node);
                    }
                }
                Answer::Silence => {
                    self.stage.run.trouble(format!(
                        "client {}: no reply to {:?}",
                        self.number,
                        String::from_utf8_lossy(&command.get_packed_command())
                    ));
                    line.close(self.stage);
                    return heard(What::Lost, self.stage.run.now());
                }
                Answer::Closed => {
                    let was_killed = line.was_killed(self.stage);
                    line.close(self.stage);
                    let what = if was_killed {
                        What::GivenBack
                    } else {
                        What::Lost
                    };
                    return heard(what, self.stage.run.now());
                }
            }
        }
        let now = self.stage.run.now();
        Heard {
            sent: now,
            ended: now,
            what: What::Nothing,
        }
    }

    /// The meaning of an error reply for the lock.
    pub(super) fn judge(&mut self, error: &testbed::Refusal) -> Outcome {
        let code = error.code();
        if let Some(refusal) = protocol::refusal(code) {
            return Outcome::Refused(refusal);
        }
        match code {
            // From CLIENT UNBLOCK. The other one is of a server that became a replica: a grant that
            // was on its way has gone to the new primary.
            "UNBLOCKED" if error.text().contains("CLIENT UNBLOCK") => Outcome::GivenBack,
            "UNBLOCKED" => Outcome::Lost,
            _ => {
                if !self.stage.is_passing(code) && self.sent_to(error).is_none() {
                    self.stage
                        .run
                        .trouble(format!("client {}: {error}", self.number));
                }
                sleep(REST);
                Outcome::Untouched
            }
        }
    }

    /// The node that a redirection names.
    fn sent_to(&self, error: &testbed::Refusal) -> Option<usize> {
        if !matches!(error.code(), "MOVED" | "ASK") {
            return None;
        }
        let port: u16 = error.text().rsplit(':').next()?.parse().ok()?;
        let nodes = self.stage.deployment.nodes();
        nodes.iter().position(|node| node.port() == port)
    }

    /// The connection to a node: the one that is open, or a new one.
    pub(super) fn line(&mut self, node: usize) -> Option<Line> {
        let open = self.lines.remove(&node);
        open.or_else(|| Line::open(self.stage, node, self.number, self.is_direct))
    }

    /// Whether all other nodes have what this client did last: each may be the next primary.
    fn is_replicated(&mut self, key: &str) -> bool {
        let replicas = self.stage.deployment.nodes().len() - 1;
        let home = self.stage.deployment.home(key);
        let Some(line) = self.lines.get_mut(&home) else {
            return false;
        };
        let wait = testbed::line(&format!("WAIT {replicas} 100"));
        matches!(line.ask(&wait), Answer::Value(redis::Value::Int(have_it))
            if usize::try_from(have_it) == Ok(replicas))
    }
}

/// Also as the server quotes it from within a script.
fn is_fenced(error: &testbed::Refusal) -> bool {
    error.code() == "FENCED" || error.text().contains("FENCED")
}
