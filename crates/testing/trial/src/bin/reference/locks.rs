//! One `Locks`: a keeper, waits, and what was lost.

use redis::{Connection, ConnectionLike, Value as Reply};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, thread};

/// A defect, and the owner of the grants that it makes up.
const MAKES_UP: &str = "makes-up";
/// Connections that wait for use.
const IDLE: usize = 16;
const PING: Duration = Duration::from_millis(100);

/// What is wrong with this worker, if anything.
pub(super) fn is_wrong(defect: &str) -> bool {
    env::var("REFERENCE_DEFECT").is_ok_and(|it| it == defect)
}

/// The class of an error, and its text.
pub(super) type Error = (&'static str, String);

#[derive(Clone)]
pub(super) struct Grant {
    pub(super) key: String,
    pub(super) owner: String,
    pub(super) token: u64,
    lease: u64,
    keep: u64,
    /// When the server was last known to hold it.
    known: Instant,
}

/// A `Locks` on one server.
pub(super) struct Locks {
    client: redis::Client,
    pub(super) keeper: Mutex<Option<Connection>>,
    pub(super) grants: Mutex<HashMap<u64, Grant>>,
    pub(super) idle: Mutex<Vec<Connection>>,
    pub(super) is_closed: AtomicBool,
}

/// A wait that is under way.
#[derive(Default)]
pub(super) struct Wait {
    pub(super) is_cancelled: AtomicBool,
    place: Mutex<Option<(Arc<Locks>, String, String)>>,
}

impl Wait {
    pub(super) fn is_of(&self, locks: &Arc<Locks>) -> bool {
        let place = self.place.lock().unwrap();
        place
            .as_ref()
            .is_some_and(|(of, _, _)| Arc::ptr_eq(of, locks))
    }

    /// Leaves neither the wait nor its grant, as long as that has not been taken over.
    pub(super) fn call_off(&self) {
        if let Some((locks, key, owner)) = &*self.place.lock().unwrap() {
            let mut release = redis::cmd("LOCK.RELEASE");
            locks.command(release.arg(key).arg(owner).arg("ALL")).ok();
        }
    }
}

impl Locks {
    pub(super) fn new(url: &str) -> Result<Self, Error> {
        Ok(Self {
            client: redis::Client::open(url).map_err(|error| ("misuse", error.to_string()))?,
            keeper: Mutex::default(),
            grants: Mutex::default(),
            idle: Mutex::default(),
            is_closed: AtomicBool::new(false),
        })
    }

    fn connect(&self) -> Result<Connection, Error> {
        let limit = Duration::from_millis(700);
        let connected = self
            .client
            .get_connection_with_timeout(limit)
            .and_then(|connection| {
                connection
                    .set_read_timeout(Some(limit))
                    .map(|()| connection)
            });
        connected.map_err(|error| classify(&error))
    }

    /// Sends a command on the keeper.
    pub(super) fn command(&self, command: &redis::Cmd) -> Result<Reply, Error> {
        let mut keeper = self.keeper.lock().unwrap();
        if keeper.is_none() {
            *keeper = Some(self.connect()?);
        }
        let connection = keeper.as_mut().expect("a connection");
        let sent = Instant::now();
        match connection.req_command(command) {
            Ok(Reply::ServerError(error)) => Err(classify(&error.into())),
            Ok(reply) => {
                for grant in self
                    .grants
                    .lock()
                    .unwrap()
                    .values_mut()
                    .filter(|grant| grant.keep > 0)
                {
                    grant.known = sent;
                }
                Ok(reply)
            }
            Err(error) => {
                *keeper = None;
                Err(classify(&error))
            }
        }
    }

    pub(super) fn acquire(
        self: &Arc<Self>,
        request: &Value,
        key: &str,
        owner: &str,
        wait: &Wait,
    ) -> Result<Grant, Error> {
        let (lease, keep) = (
            request["lease_ms"].as_u64().unwrap_or(0),
            request["keep_ms"].as_u64().unwrap_or(0),
        );
        let wait_ms = request["wait_ms"].as_i64().unwrap_or(0);
        let mut command = acquisition(request, key, owner);
        let grant = |reply: Reply, known: Instant| match reply {
            Reply::Array(parts) => match parts.first() {
                Some(Reply::Int(token)) => Ok(Grant {
                    key: key.to_owned(),
                    owner: owner.to_owned(),
                    token: u64::try_from(*token).expect("a token"),
                    lease,
                    keep,
                    known,
                }),
                _ => Err(("misuse", "no grant".to_owned())),
            },
            _ => Err(("busy", String::new())),
        };
        let begun = Instant::now();
        if is_wrong(MAKES_UP) && owner.ends_with('7') {
            let unix = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .expect("a time");
            let token = u64::try_from(unix.as_micros()).expect("a token");
            let (key, owner) = (key.to_owned(), MAKES_UP.to_owned());
            return Ok(Grant {
                key,
                owner,
                token,
                lease,
                keep,
                known: begun,
            });
        }
        if wait_ms == 0 {
            if is_wrong("is-slow") {
                thread::sleep(Duration::from_secs(3));
            }
            let mut command = command.clone();
            if keep > 0 {
                command.arg("KEEP").arg(keep);
            }
            loop {
                match self.command(&command) {
                    Err(("refused", _))
                        if is_wrong("knocks") && begun.elapsed().as_millis() < 900 => {}
                    Err(("unavailable", _)) if begun.elapsed().as_millis() < 300 => {
                        thread::sleep(PING / 10);
                    }
                    reply => return grant(reply?, begun),
                }
            }
        }
        let mut connection = self
            .idle
            .lock()
            .unwrap()
            .pop()
            .map_or_else(|| self.connect(), Ok)?;
        if is_wrong("leaks") {
            std::mem::forget(self.connect());
        }
        command.arg("BLOCK").arg(wait_ms.max(0));
        let limit = (wait_ms > 0).then(|| Duration::from_millis(wait_ms.unsigned_abs() + 700));
        connection.set_read_timeout(limit).ok();
        *wait.place.lock().unwrap() = Some((Arc::clone(self), key.to_owned(), owner.to_owned()));
        // A cancel that came before this call could be called off.
        let reply = if wait.is_cancelled.load(SeqCst) {
            Ok(Reply::Nil)
        } else {
            connection.req_command(&command)
        };
        *wait.place.lock().unwrap() = None;
        let reply = match reply {
            Ok(Reply::ServerError(error)) => return Err(classify(&error.into())),
            Ok(reply) => reply,
            Err(error) => return Err(classify(&error)),
        };
        let mut idle = self.idle.lock().unwrap();
        if idle.len() < IDLE {
            idle.push(connection);
        }
        drop(idle);
        let mut granted = grant(reply, Instant::now())?;
        if wait.is_cancelled.load(SeqCst) {
            self.give_back(&granted).ok();
            return Err(("cancelled", String::new()));
        }
        granted.known = Instant::now();
        self.command(&renewal(&granted))?;
        Ok(granted)
    }

    pub(super) fn give_back(&self, grant: &Grant) -> Result<Value, Error> {
        if grant.owner == MAKES_UP {
            return Ok(json!({ "ok": true }));
        }
        let mut command = redis::cmd("LOCK.RELEASE");
        command
            .arg(&grant.key)
            .arg(&grant.owner)
            .arg("HOLDS")
            .arg(0)
            .arg("TOKEN")
            .arg(grant.token);
        self.command(&command).map(|_| json!({ "ok": true }))
    }

    /// Sends PINGs, comes back after a loss of the connection, and tells what was lost meanwhile.
    pub(super) fn look_after(&self) {
        while !self.is_closed.load(SeqCst) {
            thread::sleep(PING);
            if self.grants.lock().unwrap().is_empty() {
                continue;
            }
            let answered = self.command(&redis::cmd("PING")).is_ok();
            let grants: Vec<_> = self
                .grants
                .lock()
                .unwrap()
                .iter()
                .map(|(id, it)| (*id, it.clone()))
                .collect();
            for (id, grant) in grants {
                let is_over = grant.known.elapsed() > Duration::from_millis(grant.lease);
                let is_gone = !answered
                    && grant.keep > 0
                    && matches!(self.command(&renewal(&grant)), Err(("lost", _)));
                if (is_over || is_gone)
                    && self.grants.lock().unwrap().remove(&id).is_some()
                    && !is_wrong("keeps-quiet")
                {
                    tell(&json!({ "event": "lost", "grant": id }));
                }
            }
        }
    }
}

/// The command, without what is different where it waits.
fn acquisition(request: &Value, key: &str, owner: &str) -> redis::Cmd {
    let lease = request["lease_ms"].as_u64();
    let mut command = redis::cmd("LOCK.ACQUIRE");
    command
        .arg(key)
        .arg(owner)
        .arg("PX")
        .arg(lease)
        .arg("HOLDS")
        .arg(1);
    match (&request["mode"], request["mode"]["limit"].as_u64()) {
        (_, Some(limit)) => command.arg("LIMIT").arg(limit),
        (mode, _) if mode == "shared" => command.arg("SHARED"),
        _ => &mut command,
    };
    command
}

fn renewal(grant: &Grant) -> redis::Cmd {
    let mut command = redis::cmd("LOCK.RENEW");
    command
        .arg(&grant.key)
        .arg(&grant.owner)
        .arg("TOKEN")
        .arg(grant.token);
    if grant.keep > 0 {
        command.arg("KEEP").arg(grant.keep);
    }
    command
}

/// The class that an error is told as.
fn classify(error: &redis::RedisError) -> Error {
    let text = format!("{} {error}", error.code().unwrap_or_default());
    let class = match error.code() {
        Some("NOTHELD" | "NOTOWNER" | "FENCED") => "lost",
        Some("DEADLOCK") => "deadlock",
        Some("NOTALONE") => "not-alone",
        Some("WRONGTYPE") => "misuse",
        Some("NOAUTH" | "WRONGPASS" | "NOPERM") => "refused",
        _ if text.contains("unknown command") => {
            return ("refused", "is the module lock loaded?".to_owned());
        }
        _ if text.contains("uthentication") || text.contains("NOAUTH") => "refused",
        _ => "unavailable",
    };
    (class, text)
}

pub(super) fn tell(line: &Value) {
    let _ = writeln!(io::stdout(), "{line}");
}
