//! The calls of a worker that are under way, and their answers, judged by their time limits as they come.

use crate::failure::{Failure, Verdict};
use crate::ledger::{Grant, Number, Shared};
use crate::limits::{MARGIN, lateness, ms};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// For how long an answer that is late is still waited for, to tell how late it is.
const GRACE: Duration = ms(5000);

/// The result of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Grant(Grant),
    Ok(Value),
    Error { class: String, text: String },
}

/// The subject of a call.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Acquire { locks: String, key: String },
    Release(Number),
    Close(String),
    Other,
}

/// A call that has been sent.
pub(crate) struct Call {
    number: u64,
    what: String,
    sent: Instant,
    answers: Receiver<(Instant, Answer)>,
    limit: Option<Duration>,
}

struct Pending {
    kind: Kind,
    what: String,
    sent: Instant,
    /// When it must have been answered, but for the margin.
    due: Option<Instant>,
    answers: Sender<(Instant, Answer)>,
}

/// Where calls are kept until their answers come.
pub(super) struct Desk {
    worker: usize,
    ledger: Shared,
    next: AtomicU64,
    pending: Mutex<HashMap<u64, Pending>>,
    /// The worker was told to stand still: since when, for how long.
    stalls: Mutex<Vec<(Instant, Duration)>>,
    may_end: AtomicBool,
}

impl Desk {
    pub(super) fn new(worker: usize, ledger: Shared) -> Self {
        Self {
            worker,
            ledger,
            next: AtomicU64::new(1),
            pending: Mutex::default(),
            stalls: Mutex::default(),
            may_end: AtomicBool::new(false),
        }
    }

    /// Notes a call; gives the line to be sent.
    pub(super) fn open(
        &self,
        mut request: Value,
        kind: Kind,
        limit: Option<Duration>,
    ) -> (Call, String) {
        let number = self.next.fetch_add(1, SeqCst);
        let what = describe(&request);
        request["id"] = number.into();
        if let Kind::Acquire { key, .. } = &kind {
            self.ledger.asked((self.worker, number), key);
        }
        let (tell, answers) = channel();
        let sent = Instant::now();
        let due = limit.map(|limit| sent + limit);
        let pending = Pending {
            kind,
            what: what.clone(),
            sent,
            due,
            answers: tell,
        };
        self.pending().insert(number, pending);
        let call = Call {
            number,
            what,
            sent,
            answers,
            limit,
        };
        (call, request.to_string())
    }

    /// From now on the call must be answered within so long.
    pub(super) fn hurry(&self, call: u64, limit: Duration) {
        if let Some(pending) = self.pending().get_mut(&call) {
            let due = Instant::now() + limit;
            pending.due = Some(pending.due.map_or(due, |at| at.min(due)));
        }
    }

    pub(super) fn stalls(&self, time: Duration) {
        self.stalls
            .lock()
            .expect("stalls")
            .push((Instant::now(), time));
    }

    /// The process may end from now on.
    pub(super) fn expect_end(&self) {
        self.may_end.store(true, SeqCst);
    }

    /// A line that the worker has written.
    pub(super) fn take(&self, line: &str) {
        let now = Instant::now();
        let Ok(value) = serde_json::from_str::<Value>(line) else {
            return self.ledger.wrong(format!("the worker writes {line:?}"));
        };
        if value["event"] == "lost" {
            match value["grant"].as_u64() {
                Some(grant) => self.ledger.lost((self.worker, grant)),
                None => self
                    .ledger
                    .wrong(format!("an event without a grant: {line}")),
            }
            return;
        }
        let pending = value["id"]
            .as_u64()
            .and_then(|number| Some((number, self.pending().remove(&number)?)));
        let Some((number, pending)) = pending else {
            return self.ledger.wrong(format!("an answer to no call: {line}"));
        };
        self.judge_time(&pending, now);
        let answer = match self.read(&pending.kind, &value) {
            Ok(answer) => answer,
            Err(why) => {
                return self
                    .ledger
                    .wrong(format!("{} is answered with {line}: {why}", pending.what));
            }
        };
        self.note(number, &pending.kind, &answer);
        let _ = pending.answers.send((now, answer));
    }

    /// The worker's output has ended.
    pub(super) fn end(&self, last_words: &str) {
        if !self.may_end.load(SeqCst) {
            self.ledger
                .wrong(format!("the worker has ended by itself{last_words}"));
        }
        self.pending().clear();
    }

    /// Notes what should have been answered by now.
    pub(super) fn overdue(&self) {
        let now = Instant::now();
        for pending in self.pending().values() {
            self.judge_time(pending, now);
        }
    }

    fn judge_time(&self, pending: &Pending, now: Instant) {
        let Some(due) = pending.due else { return };
        let stalls = self.stalls.lock().expect("stalls");
        let stalled: Duration = stalls
            .iter()
            .filter(|(begun, time)| *begun <= now && *begun + *time + MARGIN >= pending.sent)
            .map(|(_, time)| *time)
            .sum();
        if now > due + MARGIN + stalled + lateness(pending.sent) {
            let (took, limit) = (
                now - pending.sent,
                due.saturating_duration_since(pending.sent),
            );
            let what = &pending.what;
            self.ledger
                .wrong(format!("{what} took {took:.1?}, its limit is {limit:.1?}"));
        }
    }

    fn read(&self, kind: &Kind, value: &Value) -> Result<Answer, &'static str> {
        const CLASSES: [&str; 9] = [
            "busy",
            "lost",
            "deadlock",
            "not-alone",
            "refused",
            "unavailable",
            "misuse",
            "cancelled",
            "unsupported",
        ];
        if let Some(class) = value["error"].as_str() {
            let text = value["text"].as_str().unwrap_or_default().to_owned();
            let is_known = CLASSES.contains(&class);
            return is_known
                .then(|| Answer::Error {
                    class: class.to_owned(),
                    text,
                })
                .ok_or("no such class");
        }
        let Kind::Acquire { locks, key } = kind else {
            // A check may say that alone.
            let is_done =
                value["ok"] != Value::Null && value["ok"] != false || value["held"].is_boolean();
            return is_done
                .then(|| Answer::Ok(value.clone()))
                .ok_or("neither ok nor an error");
        };
        Ok(Answer::Grant(Grant {
            number: (self.worker, value["grant"].as_u64().ok_or("no grant")?),
            locks: locks.clone(),
            key: key.clone(),
            owner: value["owner"].as_str().ok_or("no owner")?.to_owned(),
            token: value["token"].as_u64().ok_or("no token")?,
        }))
    }

    fn note(&self, number: u64, kind: &Kind, answer: &Answer) {
        match kind {
            Kind::Acquire { .. } => {
                let grant = match answer {
                    Answer::Grant(grant) => Some(grant),
                    _ => None,
                };
                self.ledger.answered((self.worker, number), grant);
            }
            Kind::Release(grant) => self.ledger.release(|it| it.number == *grant, true),
            Kind::Close(locks) => {
                self.ledger
                    .release(|it| it.number.0 == self.worker && it.locks == *locks, true);
            }
            Kind::Other => {}
        }
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<u64, Pending>> {
        self.pending.lock().expect("calls")
    }
}

impl Call {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The answer, which must come within the call's limit.
    pub(crate) fn answer(&self) -> Verdict<Answer> {
        Ok(self.took()?.1)
    }

    /// The same, and how long after the call it came.
    pub(crate) fn took(&self) -> Verdict<(Duration, Answer)> {
        // How late it was is judged where it is read.
        let limit = self.limit.unwrap_or(GRACE) + MARGIN + GRACE + lateness(self.sent);
        let what = &self.what;
        match self.answers.recv_timeout(limit) {
            Ok((at, answer)) => Ok((at - self.sent, answer)),
            Err(RecvTimeoutError::Timeout) => {
                let waited = self.sent.elapsed();
                Err(format!("{what} has no answer after {waited:.1?}").into())
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(format!("{what} has no answer: the worker has ended").into())
            }
        }
    }

    /// Whether it is still without an answer.
    pub(crate) fn is_pending(&self) -> Verdict {
        match self.answers.try_recv() {
            Ok((_, answer)) => Err(format!("answered too early: {answer:?}").into()),
            Err(_) => Ok(()),
        }
    }

    /// The lock, which must have been granted.
    pub(crate) fn granted(&self) -> Verdict<Grant> {
        match self.answer()? {
            Answer::Grant(grant) => Ok(grant),
            other => Err(other.unlike("a grant").of(&self.what)),
        }
    }

    /// The error, which must be of this class; its text.
    pub(crate) fn refused(&self, class: &str) -> Verdict<String> {
        Ok(self.refused_after(&[class])?.1)
    }

    /// The same with how long after the call it came; it may be of any of these classes.
    pub(crate) fn refused_after(&self, classes: &[&str]) -> Verdict<(Duration, String)> {
        match self.took()? {
            (took, Answer::Error { class, text }) if classes.contains(&class.as_str()) => {
                Ok((took, text))
            }
            (_, other) => Err(other.unlike(&classes.join(" or ")).of(&self.what)),
        }
    }

    /// It must have been done.
    pub(crate) fn ok(&self) -> Verdict {
        self.answer()?.ok().map_err(|why| why.of(&self.what))
    }
}

impl Answer {
    pub(crate) fn ok(&self) -> Verdict {
        match self {
            Self::Ok(_) => Ok(()),
            other => Err(other.unlike("ok")),
        }
    }

    /// That this is another answer than there should be.
    fn unlike(&self, expected: &str) -> Failure {
        match self.class() {
            Some("unsupported") => Failure::Unsupported(self.to_string()),
            _ => Failure::Wrong(format!("answered with {self}, not {expected}")),
        }
    }

    /// The class of an error.
    pub(crate) fn class(&self) -> Option<&str> {
        match self {
            Self::Error { class, .. } => Some(class),
            _ => None,
        }
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Grant(grant) => write!(f, "a grant of {}", grant.key),
            Self::Ok(_) => f.write_str("ok"),
            Self::Error { class, text } => write!(f, "{class} ({text})"),
        }
    }
}

fn describe(request: &Value) -> String {
    let words = ["do", "key"].map(|name| request[name].as_str().unwrap_or_default());
    let wait = request["wait_ms"].as_i64();
    let wait = wait.map_or_else(String::new, |wait| format!("wait_ms {wait}"));
    [words[0], words[1], &wait].join(" ").trim().to_owned()
}
