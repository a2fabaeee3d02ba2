//! A worker of its own for the trial's tests: a small client on sessions of one server, that can be told to be
//! wrong (`REFERENCE_DEFECT`), so that it is seen that the trial notices.

mod locks;
mod replies;
mod state;

use locks::{Locks, Name, is_wrong};
use replies::{Error, tell};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use std::{process, thread};

#[derive(Default)]
struct Worker {
    sites: Mutex<HashMap<String, Site>>,
    /// The acquires that are under way, and whether they are cancelled.
    waits: Mutex<HashMap<u64, Arc<AtomicBool>>>,
    grants: Mutex<HashMap<u64, (Arc<Locks>, Name)>>,
    next: AtomicU64,
}

/// A server, and its locks by their lease and by how long their session may be silent.
struct Site {
    url: String,
    locks: HashMap<(u64, u64), Arc<Locks>>,
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
            lock(&worker.waits).insert(id, Arc::default());
        }
        let worker = Arc::clone(&worker);
        thread::spawn(move || {
            let answer = worker.answer(id, &request);
            let mut answer = answer.unwrap_or_else(|(class, text)| {
                let class = if class == "no-session" {
                    "unavailable"
                } else {
                    class
                };
                json!({ "error": class, "text": text })
            });
            answer["id"] = id.into();
            tell(&answer);
        });
    }
    process::exit(0);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic")
}

impl Worker {
    fn answer(&self, id: u64, request: &Value) -> Result<Value, Error> {
        let number = |name: &str| request[name].as_u64().unwrap_or_default();
        let done = json!({ "ok": true });
        match request["do"].as_str() {
            Some("open") => self.open(request),
            Some("acquire") => {
                let answer = self.acquire(id, request);
                lock(&self.waits).remove(&id);
                answer
            }
            Some("cancel") => self.cancel(number("call")),
            Some("release") => {
                let grant = lock(&self.grants).get(&number("grant")).cloned();
                let (locks, name) = grant.ok_or(("misuse", String::new()))?;
                locks.release(&name)
            }
            Some("check") => {
                let grant = lock(&self.grants).get(&number("grant")).cloned();
                let held = grant.is_some_and(|(locks, name)| locks.check(&name));
                Ok(json!({ "ok": true, "held": held }))
            }
            Some("stall") => {
                thread::sleep(Duration::from_millis(number("ms")));
                Ok(done)
            }
            Some("close") => {
                let name = request["locks"].as_str().unwrap_or_default();
                let site = lock(&self.sites).remove(name);
                let site = site.ok_or(("misuse", String::new()))?;
                site.locks.values().for_each(|locks| locks.close());
                Ok(done)
            }
            _ => Err(("unsupported", String::new())),
        }
    }

    fn open(&self, request: &Value) -> Result<Value, Error> {
        let url = request["server"]["url"].as_str();
        let url = url.ok_or(("unsupported", String::new()))?;
        let password = request["password"].as_str();
        let password = password.map(|it| format!("redis://:{it}@"));
        let url = password.map_or_else(|| url.to_owned(), |it| url.replace("redis://", &it));
        let name = request["name"].as_str().unwrap_or_default().to_owned();
        let locks = HashMap::new();
        lock(&self.sites).insert(name, Site { url, locks });
        Ok(json!({ "ok": true }))
    }

    fn acquire(&self, id: u64, request: &Value) -> Result<Value, Error> {
        if request["task"].is_string() {
            return Err(("unsupported", "tasks".to_owned()));
        }
        let text = |name: &str| request[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| request[name].as_u64().unwrap_or_default();
        let which = (number("lease_ms"), number("keep_ms"));
        let locks = {
            let mut sites = lock(&self.sites);
            let site = sites.get_mut(&text("locks"));
            let site = site.ok_or(("misuse", "closed".to_owned()))?;
            if !site.locks.contains_key(&which) {
                let locks = Locks::open(&site.url, which.0, which.1)?;
                site.locks.insert(which, locks);
            }
            Arc::clone(&site.locks[&which])
        };
        let wait = lock(&self.waits).get(&id).cloned().unwrap_or_default();
        let name = (text("key"), format!("trial:here:{}:{id}", process::id()));
        let grant = self.next.fetch_add(1, SeqCst);
        let token = locks.acquire(request, (&name, grant), &wait)?;
        let answer = json!({ "grant": grant, "token": token, "owner": name.1 });
        lock(&self.grants).insert(grant, (locks, name));
        Ok(answer)
    }

    fn cancel(&self, call: u64) -> Result<Value, Error> {
        let wait = lock(&self.waits).get(&call).cloned();
        let wait = wait.ok_or(("misuse", "no such call".to_owned()))?;
        if is_wrong("forgets-cancel") {
            tell(&json!({ "id": call, "error": "cancelled" }));
            return Ok(json!({ "ok": true }));
        }
        wait.store(true, SeqCst);
        while lock(&self.waits).contains_key(&call) {
            thread::sleep(Duration::from_millis(2));
        }
        Ok(json!({ "ok": true }))
    }
}
