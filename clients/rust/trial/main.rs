//! The worker of the common trial of all clients (crates/testing/trial): it does what JSON lines on standard input say,
//! all at a time, and answers each by a line. It ends at the end of its input, releasing nothing.

use redis_lock_client::{Error, Guard, Lock, Locks, Task};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio_util::sync::CancellationToken;

#[derive(Default)]
struct Worker {
    sites: HashMap<String, Site>,
    tasks: HashMap<(String, String), Task>,
    grants: HashMap<u64, Arc<Guard>>,
    calls: HashMap<u64, CancellationToken>,
    last_grant: u64,
}

/// How to open locks. One lease is that of all locks of a session, so those of another lease are others.
struct Site {
    request: Value,
    locks: HashMap<(u64, u64), Locks>,
}

type Shared = Arc<Mutex<Worker>>;

/// What a request comes to: fields of its answer, or the class of an error and its text.
type Outcome = Result<Value, (&'static str, String)>;

#[tokio::main]
async fn main() {
    let worker = Shared::default();
    let mut lines = BufReader::new(stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(request) = serde_json::from_str::<Value>(&line) else {
            eprintln!("no JSON: {line}");
            continue;
        };
        let id = number(&request["id"]);
        let cancelled = CancellationToken::new();
        // Known before the next line, which may cancel it.
        with(&worker).calls.insert(id, cancelled.clone());
        let worker = Arc::clone(&worker);
        tokio::spawn(async move {
            let outcome = serve(&worker, &request, cancelled).await;
            with(&worker).calls.remove(&id);
            let mut answer =
                outcome.unwrap_or_else(|(class, text)| json!({ "error": class, "text": text }));
            answer["id"] = id.into();
            println!("{answer}");
        });
    }
    std::process::exit(0);
}

fn with(worker: &Shared) -> MutexGuard<'_, Worker> {
    worker.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(worker: &Shared, request: &Value, cancelled: CancellationToken) -> Outcome {
    let ok = json!({ "ok": true });
    match request["do"].as_str().unwrap_or_default() {
        "open" => {
            let site = Site {
                request: request.clone(),
                locks: HashMap::new(),
            };
            with(worker).sites.insert(text(&request["name"]), site);
            Ok(ok)
        }
        "acquire" => acquire(worker, request, cancelled).await,
        "cancel" => {
            if let Some(cancelled) = with(worker).calls.get(&number(&request["call"])) {
                cancelled.cancel();
            }
            Ok(ok)
        }
        "release" => {
            let guard = with(worker).grants.remove(&number(&request["grant"]));
            let guard = guard.ok_or(("misuse", "no such grant".to_owned()))?;
            // A check may be under way.
            let mut shared = Some(guard);
            let guard = loop {
                match Arc::try_unwrap(shared.take().expect("the guard")) {
                    Ok(guard) => break guard,
                    Err(still) => shared = Some(still),
                }
                tokio::task::yield_now().await;
            };
            guard
                .release()
                .await
                .map(|()| ok)
                .map_err(|error| told(&error))
        }
        "check" => {
            let guard = with(worker).grants.get(&number(&request["grant"])).cloned();
            let guard = guard.ok_or(("misuse", "no such grant".to_owned()))?;
            guard.check().await.map_err(|error| told(&error))?;
            Ok(json!({ "ok": true, "held": true }))
        }
        "stall" => {
            std::thread::sleep(millis(&request["ms"]));
            Ok(ok)
        }
        "fork" => Err(("unsupported", "a Rust program does not fork".to_owned())),
        "close" => {
            let all = {
                let worker = with(worker);
                let site = worker.sites.get(&text(&request["locks"]));
                let site = site.ok_or(("misuse", "no such locks".to_owned()))?;
                site.locks.values().cloned().collect::<Vec<_>>()
            };
            for locks in all {
                locks.close().await.map_err(|error| told(&error))?;
            }
            Ok(ok)
        }
        other => Err(("misuse", format!("what is {other}?"))),
    }
}

impl Site {
    fn locks(&mut self, request: &Value) -> Result<Locks, Error> {
        let which = (number(&request["lease_ms"]), number(&request["keep_ms"]));
        let which = if which.1 == 0 {
            (10_000, 30_000)
        } else {
            which
        }; // fixed
        if let Some(known) = self.locks.get(&which) {
            return Ok(known.clone());
        }
        let locks = open(&self.request, which)?;
        self.locks.insert(which, locks.clone());
        Ok(locks)
    }
}

fn open(request: &Value, (lease, silence): (u64, u64)) -> Result<Locks, Error> {
    let server = &request["server"];
    let builder = Locks::builder()
        .service(text(&request["service"]))
        .reply_time(millis(&request["reply_ms"]))
        .lease(Duration::from_millis(lease))
        .silence(Duration::from_millis(silence));
    let login = request["password"]
        .as_str()
        .map_or_else(String::new, |password| format!(":{password}@"));
    let urls = |places: &Value, login: &str| {
        let places = places.as_array().cloned().unwrap_or_default();
        places
            .iter()
            .map(|place| format!("redis://{login}{}/", text(place)))
            .collect::<Vec<_>>()
    };
    if let Some(url) = server["url"].as_str() {
        return builder.single(url.replacen("redis://", &format!("redis://{login}"), 1));
    }
    if server["cluster"].is_array() {
        return builder.cluster(urls(&server["cluster"], &login));
    }
    let sentinels = urls(&server["sentinels"], "");
    builder.sentinel(
        text(&server["master"]),
        sentinels,
        format!("redis://{login}-/"),
    )
}

fn lock(worker: &Shared, request: &Value) -> Result<Lock, (&'static str, String)> {
    let (name, key) = (text(&request["locks"]), text(&request["key"]));
    let mut worker = with(worker);
    let site = worker
        .sites
        .get_mut(&name)
        .ok_or(("misuse", "no such locks".to_owned()))?;
    let locks = site.locks(request).map_err(|error| told(&error))?;
    let mode = &request["mode"];
    let permits = mode["limit"]
        .as_u64()
        .and_then(|limit| limit.try_into().ok());
    let task = request["task"].as_str().map(|task| {
        let task = worker.tasks.entry((name, task.to_owned()));
        task.or_insert_with(|| locks.task()).clone()
    });
    let lock = match (task, permits) {
        (_, Some(permits)) => locks.permit(key, permits),
        (Some(task), None) if mode == "shared" => task.shared(key),
        (Some(task), None) => task.lock(key),
        (None, None) if mode == "shared" => locks.shared(key),
        (None, None) => locks.lock(key),
    };
    let lock = if number(&request["keep_ms"]) == 0 {
        lock.fixed(millis(&request["lease_ms"]))
    } else {
        lock
    };
    Ok(match request["wait_ms"].as_i64() {
        Some(..0) => lock,
        _ => lock.wait(millis(&request["wait_ms"])),
    })
}

async fn acquire(worker: &Shared, request: &Value, cancelled: CancellationToken) -> Outcome {
    let lock = lock(worker, request)?;
    let acquired = lock
        .acquire_unless(cancelled.cancelled())
        .await
        .map_err(|error| told(&error))?;
    let guard = Arc::new(acquired.ok_or(("cancelled", String::new()))?);
    let (token, owner, lost) = (
        guard.token(),
        guard.owner().to_owned(),
        guard.cancellation(),
    );
    let number = {
        let mut worker = with(worker);
        worker.last_grant += 1;
        let number = worker.last_grant;
        worker.grants.insert(number, guard);
        number
    };
    tokio::spawn(async move {
        lost.cancelled().await;
        println!("{}", json!({ "event": "lost", "grant": number }));
    });
    Ok(json!({ "grant": number, "token": token, "owner": owner }))
}

fn told(error: &Error) -> (&'static str, String) {
    (error.kind().name(), error.to_string())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn millis(value: &Value) -> Duration {
    Duration::from_millis(number(value))
}
