//! A worker of its own for the trial's tests: a plain client on bare commands of one server, that can be told to be
//! wrong (`REFERENCE_DEFECT`), so that it is seen that the trial notices.

mod locks;

use locks::{Error, Locks, Wait, is_wrong, tell};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{process, thread};

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

impl Worker {
    fn answer(self: &Arc<Self>, id: u64, request: &Value) -> Result<Value, Error> {
        let number = |name: &str| request[name].as_u64().unwrap_or_default();
        match request["do"].as_str() {
            Some("open") => self.open(request),
            Some("acquire") => {
                let answer = self.acquire(id, request);
                self.waits.lock().unwrap().remove(&id);
                answer
            }
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
        let locks = Arc::new(Locks::new(&url)?);
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
        // It may be on its way to the line.
        while self.waits.lock().unwrap().contains_key(&call) {
            wait.call_off();
            thread::sleep(Duration::from_millis(2));
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
        if is_wrong("forgets-release") && !grant.key.starts_with("warm") {
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
        for wait in waits.iter().filter(|wait| wait.is_of(&locks)) {
            wait.is_cancelled.store(true, SeqCst);
            wait.call_off();
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
