//! A stand-in for unit tests: locks with the same API, in memory, without a server.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use redis_lock_client::testing::StandIn;
//!
//! let server = StandIn::new();
//! let locks = server.locks();
//! let guard = locks.lock("lock:orders:42").acquire().await?;
//! server.lose("lock:orders:42"); // what does the program do now?
//! assert_eq!(guard.lost().await.cause(), "deleted");
//! # Ok::<_, redis_lock_client::Error>(())
//! # }).unwrap();
//! ```
//!
//! Waiters get the lock first come, first served. Tokens rise, and fixed leases end by time. Deadlocks are not found.

use crate::background::timeout;
use crate::state::claim::Name;
use crate::state::{Fault, Reply};
use crate::{Builder, Locks};
use redis::{Arg, Cmd, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::Notify;

/// More holders, or milliseconds, than anybody asks for.
const MOST: u64 = 1 << 40;

/// The locks of any number of clients.
#[derive(Clone, Debug, Default)]
pub struct StandIn {
    known: Arc<Mutex<Known>>,
    news: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Known {
    /// The highest token.
    token: u64,
    /// The number of the last session or event.
    number: u64,
    /// In their order; of each key the holders, then the waiters.
    calls: Vec<Call>,
    /// Their events that no POLL has answered.
    sessions: HashMap<u64, Vec<Value>>,
}

/// A grant, or a wait, which has no token.
#[derive(Clone, Debug)]
struct Call {
    name: Name,
    limit: u64,
    token: u64,
    holds: u64,
    lease: u64,
    session: u64,
    /// The end of the wait, or of the lease.
    until: Instant,
}

impl StandIn {
    /// A server without locks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A client of it. With other settings: [`Builder::stand_in`].
    #[must_use]
    pub fn locks(&self) -> Locks {
        Builder::default().stand_in(self)
    }

    /// Ends all grants of a key as an operator's DEL does: the holders are notified, and the first waiter gets the lock.
    /// It returns false if nobody holds the lock.
    pub fn lose(&self, key: impl AsRef<[u8]>) -> bool {
        let is_lost = |call: &Call| call.name.key[..] == *key.as_ref() && call.token > 0;
        let is_any = self.known().end(Some("deleted"), is_lost) > 0;
        self.news.notify_waiters();
        is_any
    }

    /// How many hold the lock of a key, and how many wait for it.
    #[must_use]
    pub fn count(&self, key: impl AsRef<[u8]>) -> (usize, usize) {
        let mut known = self.known();
        known.expire();
        let of_key = known
            .calls
            .iter()
            .filter(|call| call.name.key[..] == *key.as_ref());
        let (holders, waiters): (Vec<_>, Vec<_>) = of_key.partition(|call| call.token > 0);
        (holders.len(), waiters.len())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn answer(&self, command: &Cmd) -> Reply {
        let words: Vec<String> = command.args_iter().map(|word| text(&word)).collect();
        let [kind, what, about, ..] = &words[..] else {
            return Err(Fault::reply("ERR no command"));
        };
        if kind != "LOCK.SESSION" {
            let reply = self.known().answer(&words);
            self.news.notify_waiters();
            return reply;
        }
        let session = about.parse().unwrap_or_default();
        match &**what {
            "OPEN" => Ok(number(self.known().open())),
            "CLOSE" => {
                let mut known = self.known();
                known.sessions.remove(&session);
                known.end(None, |call| call.session == session);
                self.news.notify_waiters();
                Ok(number(0))
            }
            _ => {
                let block = options(&words).get("BLOCK").copied().unwrap_or_default();
                self.poll(session, Instant::now() + Duration::from_millis(block))
                    .await
            }
        }
    }

    async fn poll(&self, session: u64, end: Instant) -> Reply {
        loop {
            let news = self.news.notified();
            let left = {
                let mut known = self.known();
                known.expire();
                let Some(events) = known.sessions.get_mut(&session) else {
                    return Err(Fault::reply("NOSESSION it has ended"));
                };
                if !events.is_empty() || Instant::now() >= end {
                    let events = Value::Array(std::mem::take(events));
                    let fields = [
                        ("sure-ms", Value::Int(-1)),
                        ("grants", Value::Int(0)),
                        ("events", events),
                    ];
                    return Ok(Value::Map(
                        fields.map(|(name, value)| (word(name), value)).into(),
                    ));
                }
                let next = known
                    .calls
                    .iter()
                    .filter(|call| call.ends())
                    .map(|call| call.until);
                next.min()
                    .unwrap_or(end)
                    .min(end)
                    .saturating_duration_since(Instant::now())
            };
            let _ = timeout(left + Duration::from_millis(1), news).await;
        }
    }
}

impl Call {
    /// It is a wait, or outside of a session.
    fn ends(&self) -> bool {
        self.token == 0 || self.session == 0
    }
}

impl Known {
    fn open(&mut self) -> u64 {
        self.number += 1;
        self.sessions.insert(self.number, Vec::new());
        self.number
    }

    /// Ends the waits, and the grants outside of sessions, whose time is over.
    fn expire(&mut self) {
        self.end(Some("expired"), |call| {
            call.ends() && Instant::now() > call.until
        });
    }

    /// Ends all calls that are over, and returns how many. The end of a grant is a loss if there is a reason.
    fn end(&mut self, reason: Option<&str>, is_over: impl Fn(&Call) -> bool) -> usize {
        let (over, rest) = std::mem::take(&mut self.calls)
            .into_iter()
            .partition(is_over);
        self.calls = rest;
        let over: Vec<Call> = over;
        for call in &over {
            match reason {
                _ if call.token == 0 => self.notify(call, "ended", vec![word("timeout")]),
                Some(reason) => self.notify(call, "lost", vec![number(call.token), word(reason)]),
                None => {}
            }
        }
        self.pass();
        over.len()
    }

    /// Grants each lock to those at the front of its line who have room.
    fn pass(&mut self) {
        let mut before: HashMap<Arc<[u8]>, (u64, u64)> = HashMap::new(); // so many calls, and the lowest limit
        for place in 0..self.calls.len() {
            let call = &mut self.calls[place];
            let (count, limit) = before
                .entry(Arc::clone(&call.name.key))
                .or_insert((0, MOST));
            *limit = call.limit.min(*limit);
            let is_granted = call.token == 0 && *count < *limit;
            *count += 1;
            if is_granted {
                let micros = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default()
                    .as_micros();
                self.token = (self.token + 1).max(u64::try_from(micros).unwrap_or_default());
                (call.token, call.holds, call.until) = (self.token, 1, after(call.lease));
                let call = call.clone();
                self.notify(
                    &call,
                    "granted",
                    [call.token, 1, call.lease].map(number).into(),
                );
            }
        }
    }

    fn notify(&mut self, call: &Call, kind: &str, about: Vec<Value>) {
        if let Some(events) = self.sessions.get_mut(&call.session) {
            self.number += 1;
            let mut event = vec![number(self.number), word(kind)];
            event.extend(
                [&*call.name.key, call.name.owner.as_bytes()]
                    .map(|it| Value::BulkString(it.into())),
            );
            event.extend(about);
            events.push(Value::Array(event));
        }
    }

    fn answer(&mut self, words: &[String]) -> Reply {
        self.expire();
        let options = options(words);
        let name = Name {
            key: words[1].as_bytes().into(),
            owner: words[2].as_str().into(),
        };
        let (session, token) = (
            options.get("SESSION").copied(),
            options.get("TOKEN").copied(),
        );
        if session.is_some_and(|session| session > 0 && !self.sessions.contains_key(&session)) {
            return Err(Fault::reply("NOSESSION it has ended"));
        }
        let is_fence = words[0] == "LOCK.FENCE";
        let place = self.calls.iter().position(|call| {
            let is_it = if is_fence {
                call.token.to_string() == words[2]
            } else {
                call.name.owner == name.owner
            };
            is_it && call.name.key == name.key
        });
        let held = place
            .map(|place| &self.calls[place])
            .filter(|call| call.token > 0);
        let is_wrong = token.is_some_and(|token| held.is_none_or(|call| call.token != token));
        match (&*words[0], place) {
            _ if is_wrong => Err(Fault::reply("NOTHELD the stand-in has no such grant")),
            ("LOCK.FENCE", Some(_)) => Ok(Value::Okay),
            ("LOCK.ACQUIRE", place) => Ok(self.acquire(place, &name, &options)),
            ("LOCK.RELEASE", Some(place)) => {
                let holds = options
                    .get("HOLDS")
                    .copied()
                    .unwrap_or_default()
                    .min(self.calls[place].holds);
                self.calls[place].holds = holds;
                if holds == 0 {
                    self.calls
                        .retain(|call| call.name != name || call.token > 0);
                    self.end(None, |call| call.name == name);
                }
                Ok(number(holds))
            }
            ("LOCK.RENEW", Some(place)) if held.is_some() => {
                let session = session.filter(|session| *session != self.calls[place].session);
                if let Some(session) = session {
                    let call = self.calls[place].clone();
                    self.notify(&call, "taken", vec![number(call.token), number(session)]);
                    self.calls[place].session = session;
                }
                let call = &mut self.calls[place];
                call.lease = options.get("PX").copied().unwrap_or(call.lease);
                call.until = after(call.lease);
                Ok(call.grant())
            }
            _ => Err(Fault::reply("NOTHELD the stand-in has no such grant")),
        }
    }

    fn acquire(
        &mut self,
        place: Option<usize>,
        name: &Name,
        options: &HashMap<&str, u64>,
    ) -> Value {
        let option = |word: &str| options.get(word).copied();
        if place.is_none() {
            let limit = if option("SHARED").is_some() {
                MOST
            } else {
                option("LIMIT").unwrap_or(1)
            };
            let (lease, session) = (
                option("PX").unwrap_or(MOST),
                option("SESSION").unwrap_or_default(),
            );
            let until = after(option("QUEUE").filter(|wait| *wait > 0).unwrap_or(MOST));
            self.calls.push(Call {
                name: name.clone(),
                limit,
                token: 0,
                holds: 0,
                lease,
                session,
                until,
            });
            self.pass();
        }
        let place = self
            .calls
            .iter()
            .position(|call| call.name == *name)
            .expect("a call");
        let call = &mut self.calls[place];
        if call.token > 0 {
            call.holds = call
                .holds
                .max(option("HOLDS").unwrap_or_default().min(call.holds + 1));
            return call.grant();
        }
        if option("QUEUE").is_some() {
            return number(0); // in line; the client does not look at the place
        }
        self.calls.remove(place);
        Value::Nil
    }
}

impl Call {
    fn grant(&self) -> Value {
        let owner = Value::BulkString(self.name.owner.as_bytes().into());
        Value::Array(vec![
            number(self.token),
            owner,
            number(self.holds),
            number(self.lease),
        ])
    }
}

/// The words with the numbers behind them, or 0.
fn options(words: &[String]) -> HashMap<&str, u64> {
    let next = |place: usize| words.get(place + 1).and_then(|word| word.parse().ok());
    let options = words.iter().enumerate().skip(3);
    options
        .map(|(place, word)| (word.as_str(), next(place).unwrap_or_default()))
        .collect()
}

fn after(millis: u64) -> Instant {
    Instant::now() + Duration::from_millis(millis)
}

fn number(number: u64) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn word(text: &str) -> Value {
    Value::BulkString(text.into())
}

fn text(word: &Arg<&[u8]>) -> String {
    match word {
        Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}
