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

use crate::Error;
use crate::background::timeout;
use crate::mutex::lock;
use crate::server::{Server, Servers, Source};
use crate::state::{Answer, Name};
use crate::{Builder, Locks};
use redis::{Arg, Cmd, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
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

impl Builder {
    /// Locks in memory, for unit tests: see [`testing`](crate::testing).
    #[must_use]
    pub fn stand_in(self, stand_in: &StandIn) -> Locks {
        let source = Source::StandIn(stand_in.clone());
        let server = Server::new("stand-in".to_owned(), source, self.reply);
        Locks::on(Servers::one(server), self)
    }
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
    /// It returns false if nobody holds the lock. The key includes the client's prefix.
    pub fn lose(&self, key: impl AsRef<[u8]>) -> bool {
        let is_lost = |call: &Call| call.name.key[..] == *key.as_ref() && call.token > 0;
        let is_any = lock(&self.known).end(Some("deleted"), is_lost) > 0;
        self.news.notify_waiters();
        is_any
    }

    /// How many hold the lock of a key, and how many wait for it.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let server = redis_lock_client::testing::StandIn::new();
    /// # let locks = server.locks();
    /// let guard = locks.lock("lock:orders:42").acquire().await?;
    /// assert_eq!(server.count("lock:orders:42"), (1, 0));
    /// guard.release().await?;
    /// assert_eq!(server.count("lock:orders:42"), (0, 0));
    /// # Ok::<_, redis_lock_client::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn count(&self, key: impl AsRef<[u8]>) -> (usize, usize) {
        let mut known = lock(&self.known);
        known.expire();
        let is_of_key = |call: &&Call| call.name.key[..] == *key.as_ref();
        let of_key = known.calls.iter().filter(is_of_key);
        let (holders, waiters): (Vec<_>, Vec<_>) = of_key.partition(|call| call.token > 0);
        (holders.len(), waiters.len())
    }

    pub(crate) async fn answer(&self, command: &Cmd) -> Answer {
        let words: Vec<String> = command.args_iter().map(|word| text(&word)).collect();
        if words[0] != "LOCK.SESSION" {
            let reply = lock(&self.known).answer(&words);
            self.news.notify_waiters();
            return reply;
        }
        let session = words[2].parse().unwrap_or_default();
        match &*words[1] {
            "OPEN" => Ok(number(lock(&self.known).open())),
            "CLOSE" => {
                let mut known = lock(&self.known);
                known.sessions.remove(&session);
                known.end(None, |call| call.session == session);
                self.news.notify_waiters();
                Ok(number(0))
            }
            _ => {
                let block = options(&words).get("BLOCK").copied();
                self.poll(session, after(block.unwrap_or_default())).await
            }
        }
    }

    async fn poll(&self, session: u64, end: Instant) -> Answer {
        loop {
            let news = self.news.notified();
            let next = {
                let mut known = lock(&self.known);
                known.expire();
                let Some(events) = known.sessions.get_mut(&session) else {
                    return fails("NOSESSION it has ended");
                };
                if !events.is_empty() || Instant::now() >= end {
                    let events = Value::Array(std::mem::take(events));
                    let (sure, grants) = (Value::Int(-1), Value::Int(0));
                    let fields = [("sure-ms", sure), ("grants", grants), ("events", events)];
                    let fields = fields.map(|(name, value)| (word(name), value));
                    return Ok(Value::Map(fields.into()));
                }
                let ending = known.calls.iter().filter(|call| call.ends());
                ending.map(|call| call.until).min().unwrap_or(end).min(end)
            };
            let left = next.saturating_duration_since(Instant::now());
            let _ = timeout(left + Duration::from_millis(1), news).await;
        }
    }
}

impl Call {
    /// It is a wait, or outside of a session.
    fn ends(&self) -> bool {
        self.token == 0 || self.session == 0
    }

    fn grant(&self) -> Value {
        let owner = word(&self.name.owner);
        let [token, holds, lease] = [self.token, self.holds, self.lease].map(number);
        Value::Array(vec![token, owner, holds, lease])
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
        let over: Vec<Call> = self.calls.extract_if(.., |call| is_over(call)).collect();
        for call in &over {
            match reason {
                _ if call.token == 0 => self.notify(call, "ended", vec![word("timeout")]),
                Some(reason) => self.notify(call, "lost", vec![number(call.token), word(reason)]),
                None => {}
            }
        }
        self.pass(None);
        over.len()
    }

    /// Grants each lock to those at the front of its line who have room. A grant that is the
    /// reply to the ACQUIRE of `asked` has no event.
    fn pass(&mut self, asked: Option<&Name>) {
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
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                let micros = u64::try_from(since.unwrap_or_default().as_micros());
                self.token = (self.token + 1).max(micros.unwrap_or_default());
                (call.token, call.holds, call.until) = (self.token, 1, after(call.lease));
                let call = call.clone();
                let about = [call.token, 1, call.lease].map(number);
                if asked != Some(&call.name) {
                    self.notify(&call, "granted", about.into());
                }
            }
        }
    }

    fn notify(&mut self, call: &Call, kind: &str, about: Vec<Value>) {
        if let Some(events) = self.sessions.get_mut(&call.session) {
            self.number += 1;
            let key = Value::BulkString(call.name.key.to_vec());
            let mut event = vec![number(self.number), word(kind), key, word(&call.name.owner)];
            event.extend(about);
            events.push(Value::Array(event));
        }
    }

    fn place(&self, name: &Name) -> Option<usize> {
        self.calls.iter().position(|call| call.name == *name)
    }

    fn answer(&mut self, words: &[String]) -> Answer {
        self.expire();
        let options = options(words);
        let option = |word: &str| options.get(word).copied();
        let (key, owner) = (words[1].as_bytes().into(), words[2].as_str().into());
        let name = Name { key, owner };
        let session = option("SESSION");
        if session.is_some_and(|session| session > 0 && !self.sessions.contains_key(&session)) {
            return fails("NOSESSION it has ended");
        }
        let nothing = fails("NOTHELD the stand-in has no such grant");
        let place = self.place(&name);
        let token = place.map_or(0, |place| self.calls[place].token);
        if option("TOKEN").is_some_and(|wanted| wanted != token) {
            return nothing;
        }
        match (&*words[0], place) {
            ("LOCK.FENCE", _) => {
                let is_it = |call: &Call| call.token.to_string() == words[2];
                let mut calls = self.calls.iter().filter(|call| call.name.key == name.key);
                calls.any(is_it).then_some(Value::Okay).map_or(nothing, Ok)
            }
            ("LOCK.ACQUIRE", place) => Ok(self.acquire(place, &name, &options)),
            ("LOCK.RELEASE", Some(place)) => {
                let call = &mut self.calls[place];
                call.holds = call.holds.min(option("HOLDS").unwrap_or_default());
                let holds = call.holds;
                if holds == 0 {
                    self.calls
                        .retain(|call| call.name != name || call.token > 0);
                    self.end(None, |call| call.name == name);
                }
                Ok(number(holds))
            }
            ("LOCK.RENEW", Some(place)) if token > 0 => {
                let call = self.calls[place].clone();
                if let Some(session) = session.filter(|session| *session != call.session) {
                    self.notify(&call, "taken", vec![number(token), number(session)]);
                    self.calls[place].session = session;
                }
                let call = &mut self.calls[place];
                call.lease = option("PX").unwrap_or(call.lease);
                call.until = after(call.lease);
                Ok(call.grant())
            }
            _ => nothing,
        }
    }

    fn acquire(
        &mut self,
        place: Option<usize>,
        name: &Name,
        options: &HashMap<&str, u64>,
    ) -> Value {
        let option = |word: &str| options.get(word).copied();
        let queue = option("QUEUE");
        let place = place.unwrap_or_else(|| {
            self.calls.push(Call {
                name: name.clone(),
                limit: match option("LIMIT") {
                    Some(0) => MOST,
                    limit => limit.unwrap_or(1),
                },
                token: 0,
                holds: 0,
                lease: option("PX").unwrap_or(MOST),
                session: option("SESSION").unwrap_or_default(),
                until: after(queue.filter(|wait| *wait > 0).unwrap_or(MOST)),
            });
            self.pass(Some(name));
            self.place(name).expect("a call")
        });
        let call = &mut self.calls[place];
        if call.token > 0 {
            let holds = option("HOLDS").unwrap_or_default().min(call.holds + 1);
            call.holds = call.holds.max(holds);
            return call.grant();
        }
        if queue.is_some() {
            return number(0); // in line; the client does not look at the place
        }
        self.calls.remove(place);
        Value::Nil
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

fn fails(text: &str) -> Answer {
    Err(Error::reply("stand-in", text))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A grant that is the reply to its ACQUIRE has no event; one that was waited for has.
    #[test]
    fn an_immediate_grant_has_no_event() {
        let mut known = Known::default();
        let session = known.open();
        for owner in ["first", "next"] {
            let command = format!("LOCK.ACQUIRE k {owner} PX 10000 SESSION {session} QUEUE 0");
            let words: Vec<String> = command.split(' ').map(Into::into).collect();
            known.answer(&words).expect("a reply");
        }
        assert!(known.sessions[&session].is_empty());
        known.end(None, |call| &*call.name.owner == "first");
        assert_eq!(known.sessions[&session].len(), 1);
    }
}
