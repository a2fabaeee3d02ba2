//! One `Locks`: a session, calls over a pool, and what is known of waits and grants.

mod polling;

use crate::replies::{Error, classify, send, token_of};
use crate::state::{Claim, Stage, State};
use redis::{Connection, Value as Reply};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, thread};

/// A defect, and the owner of the grants that it makes up.
const MAKES_UP: &str = "makes-up";
/// Connections that wait for use.
const IDLE: usize = 16;
/// For one try of a call: a call that is answered within a second has two.
const REPLY: Duration = Duration::from_millis(450);
/// How long a release is tried, and an old session stays open for late replies.
const RELEASE: Duration = Duration::from_secs(2);
/// How often a call looks at what has changed, if nothing wakes it.
const TICK: Duration = Duration::from_millis(20);

/// The defect of this worker, if any.
pub(super) fn is_wrong(defect: &str) -> bool {
    env::var("REFERENCE_DEFECT").is_ok_and(|it| it == defect)
}

/// The key and the owner of a wait or grant.
pub(super) type Name = (String, String);

/// A `Locks` on one server, whose grants have one lease.
pub(super) struct Locks {
    client: redis::Client,
    idle: Mutex<Vec<Connection>>,
    state: Mutex<State>,
    changed: Condvar,
    is_closed: AtomicBool,
    lease: Duration,
    /// The session's timeout; none: the leases are fixed.
    timeout: Option<Duration>,
}

impl Locks {
    /// Opens one, and polls its session from now on.
    pub(super) fn open(url: &str, lease_ms: u64, keep_ms: u64) -> Result<Arc<Self>, Error> {
        let locks = Arc::new(Self {
            client: redis::Client::open(url).map_err(|error| ("misuse", error.to_string()))?,
            idle: Mutex::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
            is_closed: AtomicBool::new(false),
            lease: Duration::from_millis(lease_ms),
            timeout: (keep_ms > 0).then_some(Duration::from_millis(keep_ms)),
        });
        let polling = Arc::clone(&locks);
        thread::spawn(move || polling.poll());
        Ok(locks)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the state")
    }

    fn connect(&self) -> Result<Connection, Error> {
        let connected = self.client.get_connection_with_timeout(REPLY);
        let connected = connected.and_then(|connection| {
            let limited = connection.set_read_timeout(Some(REPLY));
            limited.map(|()| connection)
        });
        connected.map_err(|error| classify(&error))
    }

    /// Sends a command over a connection of the pool.
    fn command(&self, words: &[&str]) -> Result<Reply, Error> {
        let idle = self.idle.lock().expect("the pool").pop();
        let mut connection = idle.map_or_else(|| self.connect(), Ok)?;
        let reply = send(&mut connection, words);
        if !matches!(reply, Err(("unavailable", _))) {
            let mut idle = self.idle.lock().expect("the pool");
            if idle.len() < IDLE {
                idle.push(connection);
            }
        }
        reply
    }

    /// Waits for a lock. The grant has this number for the trial.
    pub(super) fn acquire(
        self: &Arc<Self>,
        request: &Value,
        (name, number): (&Name, u64),
        is_cancelled: &AtomicBool,
    ) -> Result<u64, Error> {
        if is_wrong(MAKES_UP) && name.1.ends_with('7') {
            let unix = SystemTime::now().duration_since(UNIX_EPOCH);
            return Ok(u64::try_from(unix.expect("a time").as_micros()).expect("a token"));
        }
        if is_wrong("is-slow") {
            thread::sleep(Duration::from_secs(3));
        }
        if is_wrong("leaks") && request["wait_ms"] != 0 {
            std::mem::forget(self.connect());
        }
        let claim = Claim::new(number);
        self.state().claims.insert(name.clone(), claim);
        let granted = self.granted(request, name, is_cancelled);
        let granted = granted.and_then(|token| self.take_out(name, token).map(|()| token));
        if let Err((class, _)) = &granted {
            self.state().claims.remove(name);
            if *class == "unavailable" && is_wrong("loses-place") {
                for wait in self.state().ask_again() {
                    let locks = Arc::clone(self);
                    thread::spawn(move || while !locks.cancel(&wait) {});
                }
            }
            if *class == "unavailable" || !self.cancel(name) {
                let (locks, name) = (Arc::clone(self), name.clone());
                thread::spawn(move || {
                    while !locks.cancel(&name) {
                        thread::sleep(REPLY);
                    }
                });
            }
        }
        granted
    }

    /// The owner neither holds the lock nor waits for it from now on. False when nobody knows.
    fn cancel(&self, name: &Name) -> bool {
        let reply = self.command(&["LOCK.RELEASE", &name.0, &name.1, "ALL"]);
        !matches!(reply, Err(("unavailable", _)))
    }

    fn granted(
        &self,
        request: &Value,
        name: &Name,
        is_cancelled: &AtomicBool,
    ) -> Result<u64, Error> {
        let begun = Instant::now();
        let wait = request["wait_ms"].as_i64().unwrap_or(0);
        let millis = Duration::from_millis(wait.unsigned_abs());
        let mut cause = ("unavailable", "no session".to_owned());
        loop {
            if is_cancelled.load(SeqCst) {
                return Err(("cancelled", String::new()));
            }
            if self.is_closed.load(SeqCst) {
                return Err(("misuse", "closed".to_owned()));
            }
            let mut state = self.state();
            let session = state.session;
            let claim = state.claims.get_mut(name).expect("a claim");
            let is_asked = match &claim.stage {
                Stage::Over(error) => return Err(error.clone()),
                Stage::Held { token, .. } => {
                    let token = *token;
                    claim.is_handed_over = true;
                    return Ok(token);
                }
                Stage::Asked => true,
                Stage::InLine => false,
            };
            if let Some(error) = &state.refused {
                return Err(error.clone());
            }
            // The server ends a wait in line; asking has a part of a second at least.
            let limit = millis.max(REPLY) + if is_asked { Duration::ZERO } else { REPLY };
            if wait >= 0 && begun.elapsed() >= limit {
                return Err(if is_asked {
                    cause
                } else {
                    ("busy", String::new())
                });
            }
            let Some(session) = session.filter(|_| is_asked) else {
                drop(self.changed.wait_timeout(state, TICK));
                continue;
            };
            state.under_way += 1;
            drop(state);
            let left = millis.saturating_sub(begun.elapsed()).as_millis().max(1);
            let left = if wait < 0 { 0 } else { left };
            let sent = Instant::now();
            let reply = self.ask(request, name, session, (wait != 0).then_some(left));
            let mut state = self.state();
            match reply {
                Ok(Reply::Array(parts)) => {
                    let token = token_of(&parts[0]);
                    if is_wrong("believes-late") {
                        state.losses.clear();
                    }
                    state.granted(name, token, session, sent + self.lease);
                }
                Ok(Reply::Int(_)) => state.in_line(name, session),
                Ok(_) => {
                    state.answered();
                    return Err(("busy", String::new()));
                }
                Err(error @ ("unavailable" | "no-session", _)) => {
                    cause = ("unavailable", error.1);
                    drop(self.changed.wait_timeout(state, TICK));
                    state = self.state();
                }
                Err(error) => {
                    state.answered();
                    return Err(error);
                }
            }
            state.answered();
        }
    }

    fn ask(
        &self,
        request: &Value,
        name: &Name,
        session: u64,
        queue: Option<u128>,
    ) -> Result<Reply, Error> {
        let (session, lease) = (session.to_string(), self.lease.as_millis().to_string());
        let mut words = vec!["LOCK.ACQUIRE", &name.0, &name.1, "PX", &lease];
        words.extend(["SESSION", &session, "HOLDS", "1"]);
        let limit = request["mode"]["limit"].as_u64().map(|it| it.to_string());
        match &limit {
            Some(limit) => words.extend(["LIMIT", limit]),
            None if request["mode"] == "shared" => words.push("SHARED"),
            None => {}
        }
        let queue = queue.map(|it| it.to_string());
        if let Some(queue) = &queue
            && is_wrong("blocks")
        {
            let mut connection = self.connect()?;
            let limited = connection.set_read_timeout(None);
            limited.map_err(|error| classify(&error))?;
            let words = ["LOCK.ACQUIRE", &name.0, &name.1, "BLOCK", queue];
            return send(&mut connection, &words);
        }
        if let Some(queue) = &queue {
            words.extend(["QUEUE", queue]);
        }
        self.command(&words)
    }

    /// A fixed lease belongs to no session.
    fn take_out(&self, name: &Name, token: u64) -> Result<(), Error> {
        if self.timeout.is_some() || name.1 == MAKES_UP {
            return Ok(());
        }
        let (token, sent) = (token.to_string(), Instant::now());
        let (key, owner) = (&name.0, &name.1);
        self.state().renewed(name, None, sent + self.lease); // the session is told that it is taken
        self.command(&["LOCK.RENEW", key, owner, "TOKEN", &token, "SESSION", "0"])?;
        self.state().renewed(name, None, sent + self.lease);
        Ok(())
    }

    /// The server says that this grant stands.
    pub(super) fn check(&self, name: &Name) -> bool {
        let token = self.state().claims.get(name).and_then(Claim::token);
        token.is_some_and(|token| {
            let fenced = self.command(&["LOCK.FENCE", &name.0, &token.to_string()]);
            fenced.is_ok() && self.state().claims.get(name).is_some_and(Claim::is_held)
        })
    }

    pub(super) fn release(self: &Arc<Self>, name: &Name) -> Result<Value, Error> {
        let done = json!({ "ok": true });
        let Some(claim) = self.state().claims.remove(name) else {
            return if is_wrong(MAKES_UP) {
                Ok(done)
            } else {
                Err(("lost", String::new()))
            };
        };
        let Some(token) = claim.token() else {
            return Err(("lost", String::new()));
        };
        if is_wrong("forgets-release") && !name.0.starts_with("warm") {
            return Ok(done);
        }
        let (token, session) = (token.to_string(), claim.session.map(|it| it.to_string()));
        let (key, owner) = (&name.0, &name.1);
        let mut words = vec!["LOCK.RELEASE", key, owner, "HOLDS", "0", "TOKEN", &token];
        if let Some(session) = &session {
            words.extend(["SESSION", session]);
        }
        let begun = Instant::now();
        let mut reply = self.command(&words);
        while matches!(reply, Err(("unavailable", _))) && begun.elapsed() + REPLY < RELEASE {
            thread::sleep(TICK);
            reply = self.command(&words).or_else(done_before);
        }
        match reply {
            Err(("misuse", text)) => Err(("lost", text)), // WRONGTYPE
            Err(("unavailable", text)) => {
                if !is_wrong("forgets-unfinished") {
                    let words = words.iter().map(|&word| word.to_owned());
                    self.state().unfinished.push(words.collect());
                }
                Err(("unavailable", text))
            }
            Err(("refused", text)) => {
                if !is_wrong("stays-in-session") {
                    self.leave_session();
                }
                Err(("refused", text))
            }
            reply => reply.map(|_| done),
        }
    }

    /// Ends the session, with what it still renews, when all else has moved to another one.
    fn leave_session(self: &Arc<Self>) {
        let Some(session) = self.state().session.take() else {
            return;
        };
        let locks = Arc::clone(self);
        thread::spawn(move || {
            thread::sleep(RELEASE);
            let _ = locks.command(&["LOCK.SESSION", "CLOSE", &session.to_string()]);
        });
    }

    /// Ends the session, which releases all that it has.
    pub(super) fn close(&self) {
        self.is_closed.store(true, SeqCst);
        self.changed.notify_all();
        let claims: Vec<_> = self.state().claims.keys().cloned().collect();
        let session = self.state().session;
        if let Some(session) = session {
            let _ = self.command(&["LOCK.SESSION", "CLOSE", &session.to_string()]);
        }
        for name in claims {
            // Of a fixed lease, and of a call that is still on its way.
            let _ = self.command(&["LOCK.RELEASE", &name.0, &name.1, "ALL"]);
        }
        self.state().claims.clear();
        self.idle.lock().expect("the pool").clear();
    }
}

/// A release whose first try was not answered, and that has nothing to release.
fn done_before(error: Error) -> Result<Reply, Error> {
    if error.0 == "lost" {
        Ok(Reply::Nil)
    } else {
        Err(error)
    }
}
