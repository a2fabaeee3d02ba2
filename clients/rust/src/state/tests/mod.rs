//! The rules of docs/client-protocol.md, by plain calls without a server. † marks what its model cannot do without. The
//! clock starts at 100 s, the client's lease is 10 s, and session 7 is open.

mod errors;
mod grants;
mod losses;
mod releases;
mod waits;

use super::claim::{Claim, Name, Phase, TaskOwner, Terms};
use super::{Answer, Id, Node, Reply, State, Step, Time};
use crate::error::{Error, ErrorKind};
use crate::mutex::lock;
use redis::{Arg, Cmd, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn at(seconds: f64) -> Time {
    Duration::from_secs_f64(seconds)
}

fn no_reply() -> Answer {
    Err(Error::unanswered("server", "timeout"))
}

fn says(text: &str) -> Answer {
    Err(Error::reply("server", text))
}

fn int(number: u64) -> Value {
    Value::Int(number.try_into().expect("a small number"))
}

fn word(text: &str) -> Value {
    Value::BulkString(text.into())
}

#[expect(clippy::unnecessary_wraps, reason = "as the other replies")]
fn grant(token: u64, lease_ms: u64) -> Answer {
    let parts = [int(token), word("o"), int(1), int(lease_ms)];
    Ok(Value::Array(parts.to_vec()))
}

fn name(key: &str) -> Name {
    Name {
        key: key.as_bytes().into(),
        owner: "o".into(),
    }
}

/// How a lock is acquired, with this time to wait.
fn terms(key: &str, wait: Duration) -> Terms {
    Terms {
        key: key.as_bytes().into(),
        limit: Some(1),
        wait: Some(wait),
        ..Terms::default()
    }
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
    assert_eq!(error.kind(), kind, "{error}");
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

/// An ACQUIRE that is under way.
struct Asked {
    id: Id,
    name: Name,
    session: u64,
    sent: Time,
}

impl Rig {
    fn open() -> Self {
        let mut rig = Self {
            state: State::new("client-".to_owned(), 10 * S, S, false),
            seen: 0,
        };
        rig.state.at = 100 * S;
        rig.add_node("server", 7);
        rig
    }

    fn add_node(&mut self, address: &str, session: u64) {
        self.state.nodes.push(Node::new(address));
        self.state.opened(self.state.nodes.len() - 1, session);
    }

    fn at(&mut self, seconds: f64) -> &mut Self {
        self.state.at = at(seconds);
        self
    }

    fn ask_for(&mut self, task: Option<&Arc<TaskOwner>>, terms: Terms) -> Result<Id, Error> {
        let mut claim = Claim::new(terms, CancellationToken::new(), 0);
        claim.name.owner = "o".into();
        claim.task = task.cloned();
        self.state.ask(claim)
    }

    fn ask(&mut self, terms: Terms) -> Id {
        self.ask_for(None, terms).expect("asked")
    }

    /// A wait whose ACQUIRE is under way.
    fn asked(&mut self, key: &str) -> Asked {
        let id = self.ask(terms(key, 5 * S));
        self.sent(id)
    }

    fn sent(&mut self, id: Id) -> Asked {
        match self.state.next_step(id) {
            Ok(Step::Send(_, _, session, _)) => Asked {
                id,
                name: self.state[id].name.clone(),
                session,
                sent: self.state.at,
            },
            other => panic!("{other:?}"),
        }
    }

    fn answered(&mut self, asked: &Asked, answer: Answer) {
        let reply = Reply::new(answer, 0, asked.sent);
        let (id, name) = (asked.id, &asked.name);
        self.state.answered(id, name, asked.session, &reply);
    }

    /// Another ACQUIRE of a wait, with the answer.
    fn again(&mut self, id: Id, session: u64, answer: Answer) {
        self.state.asked(id);
        let (name, sent) = (self.state[id].name.clone(), self.state.at);
        let asked = Asked {
            id,
            name,
            session,
            sent,
        };
        self.answered(&asked, answer);
    }

    fn in_line(&mut self, key: &str) -> Id {
        let asked = self.asked(key);
        self.answered(&asked, Ok(int(0)));
        asked.id
    }

    /// A grant with the token 50 that the user has. It is sure for 10 s.
    fn held(&mut self, key: &str) -> Id {
        let asked = self.asked(key);
        self.answered(&asked, grant(50, 10_000));
        self.is_done(asked.id);
        asked.id
    }

    /// A grant with the token 50 that the user has detached.
    fn detached(&mut self, key: &str) {
        let id = self.held(key);
        self.state.renew(id, 3 * S, true);
        let reply = self.said(grant(50, 3000), false);
        self.state.detached(id, &reply).expect("detached");
    }

    /// A RENEW that takes a grant out of its session, with the answer.
    fn leave(&mut self, id: Id, answer: Answer) -> Result<(), Error> {
        self.state.renew(id, 3 * S, true);
        let reply = self.said(answer, false);
        self.state.left(id, &reply)
    }

    /// The user's release, with the answer. `was_open`: an earlier try had none.
    fn release(&mut self, id: Id, answer: Answer, was_open: bool) -> Result<(), Error> {
        self.state[id].require_held()?;
        self.state.release(id);
        let reply = self.said(answer, was_open);
        self.state.released(id, &reply)
    }

    /// A RENEW that was sent then, and whose reply has this lease.
    fn renewed(&mut self, id: Id, sent: f64, lease_ms: u64) {
        let reply = Reply::new(grant(50, lease_ms), 0, at(sent));
        self.state.confirmed(id, &reply).expect("renewed");
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
        self.state.nodes[0].session = 0;
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

    /// Sends what is due, and gives it these answers.
    fn apply(&mut self, answers: &[Answer]) -> Vec<String> {
        let due = self.state.due(0);
        let commands = due.iter().map(|due| line(&due.0)).collect();
        for (due, answer) in due.into_iter().zip(answers) {
            let reply = self.said(answer.clone(), false);
            (due.1)(&mut self.state, &reply);
        }
        commands
    }

    fn sure_till(&self, id: Id, seconds: f64) {
        let sure = self.state[id].sure.as_secs_f64();
        assert!((sure - seconds).abs() < 1e-6, "{sure} instead of {seconds}");
    }

    /// It is lost for this reason.
    #[track_caller]
    fn is_lost(&self, id: Id, reason: &str) {
        let claim = &self.state[id];
        assert!(claim.is_lost());
        assert_eq!(claim.failure.as_ref().map(Error::cause), Some(reason));
    }

    #[track_caller]
    fn is_held(&self, id: Id) {
        assert_eq!(self.state[id].phase, Phase::Held);
    }

    /// How long a grant lasts; none: it has ended.
    fn rest(&mut self, id: Id) -> Option<Duration> {
        let rest = self.state.expire(id)?;
        Some(rest.expect_err("it lasts"))
    }

    /// A grant ends by time, and this command releases it.
    fn ends(&mut self, id: Id, release: &str) {
        match self.state.expire(id) {
            Some(Ok(command)) => assert_eq!(line(&command), release),
            other => panic!("{other:?}"),
        }
    }

    fn said(&self, answer: Answer, was_open: bool) -> Reply {
        let mut reply = Reply::new(answer, 0, self.state.at);
        reply.was_open = was_open;
        reply
    }

    fn set_holds(&mut self, id: Id, holds: u64) {
        self.state[id].holds = holds;
    }
}
