//! The rules of docs/client-protocol.md, by plain calls without a server. † marks what its model cannot do without. The
//! clock starts at 100 s, the client's lease is 10 s, and session 7 is open.

mod errors;
mod grants;
mod losses;
mod releases;
mod waits;

use super::claim::{Claim, Name, Phase, Target, TaskOwner};
use super::{Answer, Asked, Id, Node, Reply, State, Step, Time};
use crate::error::{Error, ErrorKind};
use redis::{Arg, Cmd, Value};
use std::sync::Arc;
use std::time::Duration;

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn at(seconds: f64) -> Time {
    Duration::from_secs_f64(seconds)
}

fn no_reply() -> Reply {
    Err(Error::unanswered("timeout"))
}

fn says(text: &str) -> Reply {
    Err(Error::reply(text))
}

fn int(number: u64) -> Value {
    Value::Int(number.try_into().expect("a small number"))
}

fn word(text: &str) -> Value {
    Value::BulkString(text.into())
}

#[expect(clippy::unnecessary_wraps, reason = "as the other replies")]
fn grant(token: u64, lease_ms: u64) -> Reply {
    let parts = [int(token), word("o"), int(1), int(lease_ms)];
    Ok(Value::Array(parts.to_vec()))
}

fn name(key: &str) -> Name {
    Name {
        key: key.as_bytes().into(),
        owner: "o".into(),
    }
}

fn to(node: usize, is_asking: bool) -> Target {
    Target { node, is_asking }
}

fn event<const N: usize>(kind: &str, key: &str, about: [Value; N]) -> Vec<Value> {
    let mut event = [kind, key, "o"].map(word).to_vec();
    event.extend(about);
    event
}

fn granted(key: &str, token: u64) -> Vec<Value> {
    event("granted", key, [token, 1, 10_000, 1].map(int))
}

fn lost(key: &str, token: u64) -> Vec<Value> {
    event("lost", key, [int(token), word("deleted")])
}

fn taken(key: &str, token: u64, session: u64) -> Vec<Value> {
    event("taken", key, [token, session].map(int))
}

fn ended(key: &str, why: &str) -> Vec<Value> {
    event("ended", key, [word(why)])
}

#[track_caller]
fn is<T: std::fmt::Debug>(result: Result<T, Error>, kind: ErrorKind) -> Error {
    let error = result.expect_err("a failure");
    assert_eq!(error.kind, kind, "{error}");
    error
}

fn line(command: &Cmd) -> String {
    let words = command.args_iter().map(|word| match word {
        Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => "?".to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A state with one server.
struct Rig {
    state: State,
    seen: u64,
}

impl Rig {
    fn open() -> Self {
        let mut state = State::new(10 * S, S, false);
        state.at = 100 * S;
        state.nodes.push(Node::new("server"));
        state.opened(0, 7);
        Self { state, seen: 0 }
    }

    fn at(&mut self, seconds: f64) -> &mut Self {
        self.state.at = at(seconds);
        self
    }

    fn claim(&self, key: &str, wait: Duration) -> Claim {
        let mut claim = Claim::new(name(key), Some(wait), S, self.state.at);
        claim.lease = 10 * S;
        claim
    }

    /// A wait whose ACQUIRE is under way.
    fn asked_for(&mut self, task: Option<&Arc<TaskOwner>>, key: &str) -> Asked {
        let mut claim = self.claim(key, 5 * S);
        claim.task = task.cloned();
        let id = self.state.ask(claim).expect("asked");
        self.sent(id)
    }

    fn asked(&mut self, key: &str) -> Asked {
        self.asked_for(None, key)
    }

    fn sent(&mut self, id: Id) -> Asked {
        match self.state.next_step(id) {
            Ok(Step::Send(asked)) => asked,
            other => panic!("{other:?}"),
        }
    }

    /// Another ACQUIRE of a wait, with the reply.
    fn answered(&mut self, id: Id, session: u64, reply: &Reply) {
        let asked = Asked {
            session,
            ..self.state.asked(id)
        };
        self.state.answered(&asked, reply);
    }

    fn in_line(&mut self, key: &str) -> Id {
        let asked = self.asked(key);
        self.state.answered(&asked, &Ok(int(0)));
        asked.id
    }

    /// A grant with the token 50 that the user has. It is sure for 10 s.
    fn held(&mut self, key: &str) -> Id {
        let asked = self.asked(key);
        self.state.answered(&asked, &grant(50, 10_000));
        self.is_done(asked.id);
        asked.id
    }

    /// A grant with the token 50 that the user has detached.
    fn detached(&mut self, key: &str) {
        let id = self.held(key);
        self.leave(id, grant(50, 3000)).expect("left");
        self.state.let_go(id);
    }

    /// A RENEW that takes a grant out of its session, with the reply.
    fn leave(&mut self, id: Id, reply: Reply) -> Result<(), Error> {
        self.state.renew(id, 3 * S, true).expect("held");
        let answer = self.answer(reply, false);
        self.state.left(id, &answer)
    }

    /// The user's release, with the reply. `was_open`: an earlier try had none.
    fn release(&mut self, id: Id, reply: Reply, was_open: bool) -> Result<(), Error> {
        self.state.release(id)?;
        let answer = self.answer(reply, was_open);
        self.state.released(id, &answer)
    }

    /// A RENEW that was sent then, and whose reply has this lease.
    fn renewed(&mut self, id: Id, sent: f64, lease_ms: u64) {
        let (sent, reply, was_open) = (at(sent), grant(50, lease_ms), false);
        let answer = Answer {
            sent,
            reply,
            was_open,
        };
        self.state.confirmed(id, &answer).expect("renewed");
    }

    fn is_done(&mut self, id: Id) {
        assert!(matches!(self.state.next_step(id), Ok(Step::Done)));
    }

    fn rests(&mut self, id: Id) -> Duration {
        match self.state.next_step(id) {
            Ok(Step::Rest(rest)) => rest,
            other => panic!("{other:?}"),
        }
    }

    /// Sends a POLL, for `reply`.
    fn begin(&mut self) -> Time {
        self.state.at += Duration::from_nanos(1);
        let sent = self.state.at;
        self.state.at += Duration::from_nanos(1); // what is known before is earlier, what comes is later
        sent
    }

    fn reply(&mut self, sent: Time, sure_ms: i64, grants: u64, events: Vec<Vec<Value>>) {
        let events = events.into_iter().map(|mut event| {
            self.seen += 1;
            event.insert(0, int(self.seen));
            Value::Array(event)
        });
        let events = Value::Array(events.collect());
        let (sure, grants) = (Value::Int(sure_ms), int(grants));
        let fields = [("sure-ms", sure), ("grants", grants), ("events", events)];
        let reply = Value::Map(fields.map(|(name, value)| (word(name), value)).into());
        self.state.polled(0, sent, &reply);
    }

    fn poll(&mut self, sure_ms: i64, grants: u64, events: Vec<Vec<Value>>) {
        let sent = self.begin();
        self.reply(sent, sure_ms, grants, events);
    }

    fn end_session(&mut self) {
        self.state.session_ended(0);
        self.state.opened(0, 8);
        self.seen = 0;
    }

    fn is_due(&mut self, want: &[&str]) {
        let mut due: Vec<String> = self.state.due(0).iter().map(|due| line(&due.0)).collect();
        due.sort();
        let mut want = want.to_vec();
        want.sort_unstable();
        assert_eq!(due, want);
    }

    /// Sends what is due, and gives it these replies.
    fn apply(&mut self, replies: &[Reply]) -> Vec<String> {
        let sent = self.state.at;
        let due = self.state.due(0);
        let commands = due.iter().map(|due| line(&due.0)).collect();
        for (due, reply) in due.into_iter().zip(replies) {
            (due.1)(&mut self.state, sent, reply);
        }
        commands
    }

    fn sure_till(&self, id: Id, seconds: f64) {
        let sure = self.state.sure(id).as_secs_f64();
        assert!((sure - seconds).abs() < 1e-6, "{sure} instead of {seconds}");
    }

    fn is(&self, id: Id, phase: Phase, reason: &str) {
        let claim = &self.state.claims[&id];
        assert_eq!((claim.phase, &*claim.reason), (phase, reason));
    }

    fn answer(&self, reply: Reply, was_open: bool) -> Answer {
        Answer {
            sent: self.state.at,
            reply,
            was_open,
        }
    }

    fn set_holds(&mut self, id: Id, holds: u64) {
        self.state.claims.get_mut(&id).expect("a claim").holds = holds;
    }
}
