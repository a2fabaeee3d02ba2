//! A worker of its own for the trial's tests: a plain client on bare commands of one server, that can be told to be
//! wrong (`REFERENCE_DEFECT`), so that it is seen that the trial notices.

use redis::{Connection, ConnectionLike, Value as Reply};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, process, thread};

/// A defect, and the owner of the grants that it makes up.
const MAKES_UP: &str = "makes-up";
const PING: Duration = Duration::from_millis(100);

/// What is wrong with this worker, if anything.
fn is_wrong(defect: &str) -> bool {
    env::var("REFERENCE_DEFECT").is_ok_and(|it| it == defect)
}

/// The class of an error, and its text.
type Error = (&'static str, String);

#[derive(Clone)]
struct Grant {
    key: String,
    owner: String,
    token: u64,
    lease: u64,
    keep: u64,
    /// When the server was last known to hold it.
    known: Instant,
}

/// A `Locks` on one server.
struct Locks {
    client: redis::Client,
    keeper: Mutex<Option<Connection>>,
    grants: Mutex<HashMap<u64, Grant>>,
    idle: Mutex<Vec<Connection>>,
    is_closed: AtomicBool,
}

/// A wait that is under way.
#[derive(Default)]
struct Wait {
    is_cancelled: AtomicBool,
    place: Mutex<Option<(Arc<Locks>, String, String)>>,
}

#[derive(Default)]
struct Worker {
    locks: Mutex<HashMap<String, Arc<Locks>>>,
    waits: Mutex<HashMap<u64, Arc<Wait>>>,
    homes: Mutex<HashMap<u64, Arc<Locks>>>,
    next: AtomicU64,
}

fn main() {
    let worker = Arc::new(Worker::default());
    for line in io::stdin().lines().map_while(Result::ok) {
        let request: Value = serde_json::from_str(&line).expect("a request");
        let id = request["id"].as_u64().expect("an id");
        if is_wrong("dies") && id > 10 {
            process::exit(1);
        }
        if request["do"] == "acquire" {
            worker.waits.lock().unwrap().insert(id, Arc::default());
        }
        let worker = Arc::clone(&worker);
        thread::spawn(move || {
            let mut answer = worker
                .answer(id, &request)
                .unwrap_or_else(|(class, text)| json!({ "error": class, "text": text }));
            answer["id"] = id.into();
            tell(&answer);
        });
    }
    process::exit(0);
}

fn tell(line: &Value) {
    let _ = writeln!(io::stdout(), "{line}");
}

impl Worker {
    fn answer(self: &Arc<Self>, id: u64, request: &Value) -> Result<Value, Error> {
        let number = |name: &str| request[name].as_u64().unwrap_or_default();
        match request["do"].as_str() {
            Some("open") => self.open(request),
            Some("acquire") => self.acquire(id, request),
            Some("cancel") => self.cancel(number("call")),
            Some("release") => self.release(number("grant")),
            Some("check") => {
                let locks = self.homes.lock().unwrap().get(&number("grant")).cloned();
                let Some(locks) = locks else {
                    return Ok(json!({ "ok": true, "held": false }));
                };
                let _ = locks.command(&redis::cmd("PING"));
                let held = locks.grants.lock().unwrap().contains_key(&number("grant"));
                Ok(json!({ "ok": true, "held": held }))
            }
            Some("stall") => {
                thread::sleep(Duration::from_millis(number("ms")));
                Ok(json!({ "ok": true }))
            }
            Some("close") => self.close(request["locks"].as_str().unwrap_or_default()),
            _ => Err(("unsupported", String::new())),
        }
    }

    fn open(self: &Arc<Self>, request: &Value) -> Result<Value, Error> {
        let url = request["server"]["url"]
            .as_str()
            .ok_or(("unsupported", String::new()))?;
        let password = request["password"]
            .as_str()
            .map(|it| format!("redis://:{it}@"));
        let url = password.map_or_else(|| url.to_owned(), |it| url.replace("redis://", &it));
        let locks = Arc::new(Locks {
            client: redis::Client::open(url).map_err(|error| ("misuse", error.to_string()))?,
            keeper: Mutex::default(),
            grants: Mutex::default(),
            idle: Mutex::default(),
            is_closed: AtomicBool::new(false),
        });
        let name = request["name"].as_str().unwrap_or_default().to_owned();
        self.locks.lock().unwrap().insert(name, Arc::clone(&locks));
        thread::spawn(move || locks.look_after());
        Ok(json!({ "ok": true }))
    }

    fn acquire(&self, id: u64, request: &Value) -> Result<Value, Error> {
        let locks = self
            .locks
            .lock()
            .unwrap()
            .get(request["locks"].as_str().unwrap_or_default())
            .cloned();
        let locks = locks
            .filter(|it| !it.is_closed.load(SeqCst))
            .ok_or(("misuse", "closed".to_owned()))?;
        let wait = self
            .waits
            .lock()
            .unwrap()
            .get(&id)
            .cloned()
            .unwrap_or_default();
        let key = request["key"].as_str().unwrap_or_default().to_owned();
        let owner = format!("trial:here:{}:{id}", process::id());
        let grant = locks.acquire(request, &key, &owner, &wait);
        let grant = match grant {
            Ok(grant) => grant,
            Err(_) if wait.is_cancelled.load(SeqCst) => return Err(("cancelled", String::new())),
            Err(error) => return Err(error),
        };
        let number = self.next.fetch_add(1, SeqCst);
        let answer = json!({ "grant": number, "token": grant.token, "owner": grant.owner });
        locks.grants.lock().unwrap().insert(number, grant);
        self.homes.lock().unwrap().insert(number, locks);
        Ok(answer)
    }

    fn cancel(&self, call: u64) -> Result<Value, Error> {
        let wait = self.waits.lock().unwrap().get(&call).cloned();
        let Some(wait) = wait else {
            return Err(("misuse", "no such call".to_owned()));
        };
        if is_wrong("forgets-cancel") {
            tell(&json!({ "id": call, "error": "cancelled" }));
            return Ok(json!({ "ok": true }));
        }
        wait.is_cancelled.store(true, SeqCst);
        let place = wait.place.lock().unwrap().clone();
        if let Some((locks, key, owner)) = place {
            locks
                .command(redis::cmd("LOCK.RELEASE").arg(key).arg(owner).arg("ALL"))
                .ok();
        }
        Ok(json!({ "ok": true }))
    }

    fn release(&self, number: u64) -> Result<Value, Error> {
        let locks = self
            .homes
            .lock()
            .unwrap()
            .get(&number)
            .cloned()
            .ok_or(("misuse", String::new()))?;
        let grant = locks.grants.lock().unwrap().remove(&number);
        let grant = grant.ok_or(("lost", String::new()))?;
        if is_wrong("forgets-release") {
            return Ok(json!({ "ok": true }));
        }
        locks.give_back(&grant)
    }

    fn close(&self, name: &str) -> Result<Value, Error> {
        let locks = self
            .locks
            .lock()
            .unwrap()
            .remove(name)
            .ok_or(("misuse", String::new()))?;
        locks.is_closed.store(true, SeqCst);
        let waits: Vec<_> = self.waits.lock().unwrap().values().cloned().collect();
        for wait in waits {
            let place = wait.place.lock().unwrap().clone();
            if let Some((_, key, owner)) = place.filter(|(of, _, _)| Arc::ptr_eq(of, &locks)) {
                wait.is_cancelled.store(true, SeqCst);
                locks
                    .command(redis::cmd("LOCK.RELEASE").arg(key).arg(owner).arg("ALL"))
                    .ok();
            }
        }
        let grants: Vec<_> = locks.grants.lock().unwrap().drain().collect();
        for (_, grant) in grants {
            locks.give_back(&grant).ok();
        }
        *locks.keeper.lock().unwrap() = None;
        locks.idle.lock().unwrap().clear();
        Ok(json!({ "ok": true }))
    }
}

impl Locks {
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
    fn command(&self, command: &redis::Cmd) -> Result<Reply, Error> {
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

    fn acquire(
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
        self.idle.lock().unwrap().push(connection);
        let mut granted = grant(reply, Instant::now())?;
        if wait.is_cancelled.load(SeqCst) {
            self.give_back(&granted).ok();
            return Err(("cancelled", String::new()));
        }
        granted.known = Instant::now();
        self.command(&renewal(&granted))?;
        Ok(granted)
    }

    fn give_back(&self, grant: &Grant) -> Result<Value, Error> {
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
    fn look_after(&self) {
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
