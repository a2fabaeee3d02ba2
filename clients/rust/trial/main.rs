//! The worker by which the trial of all clients drives this one: lines of JSON in, lines of JSON out, all
//! requests at the same time. It ends at the end of its input, releasing nothing.

use redis_lock_client::{Error, Guard, Lock, Locks, Loss};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio_util::sync::CancellationToken;

#[derive(Default)]
struct Worker {
    locks: HashMap<String, Locks>,
    tasks: HashMap<(String, String), redis_lock_client::Task>,
    grants: HashMap<u64, Arc<Guard>>,
    cancelled: HashMap<u64, CancellationToken>,
    last_grant: u64,
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
        let id = request["id"].as_u64().unwrap_or_default();
        let cancelled = CancellationToken::new();
        if request["do"] == "acquire" {
            // Known before the next line, which may cancel it.
            with(&worker).cancelled.insert(id, cancelled.clone());
        }
        let worker = Arc::clone(&worker);
        tokio::spawn(async move {
            let outcome = serve(&worker, &request, cancelled).await;
            with(&worker).cancelled.remove(&id);
            let mut answer = match outcome {
                Ok(fields) => fields,
                Err((class, text)) => json!({ "error": class, "text": text }),
            };
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
    match request["do"].as_str().unwrap_or_default() {
        "open" => {
            let locks = open(request).map_err(|error| told(&error))?;
            let name = text(&request["name"]);
            with(worker).locks.insert(name, locks);
            Ok(json!({ "ok": true }))
        }
        "acquire" => acquire(worker, request, cancelled).await,
        "cancel" => {
            let call = request["call"].as_u64().unwrap_or_default();
            if let Some(cancelled) = with(worker).cancelled.get(&call) {
                cancelled.cancel();
            }
            Ok(json!({ "ok": true }))
        }
        "release" => {
            let number = request["grant"].as_u64().unwrap_or_default();
            let guard = with(worker).grants.remove(&number);
            let guard = guard.ok_or(("misuse", "no such grant".to_owned()))?;
            // The one who listens for its loss lets it go.
            let mut guard = Some(guard);
            loop {
                match Arc::try_unwrap(guard.take().expect("the guard")) {
                    Ok(guard) => {
                        guard.release().await.map_err(|error| told(&error))?;
                        return Ok(json!({ "ok": true }));
                    }
                    Err(shared) => guard = Some(shared),
                }
                tokio::task::yield_now().await;
            }
        }
        "check" => {
            let number = request["grant"].as_u64().unwrap_or_default();
            let guard = with(worker).grants.get(&number).cloned();
            let guard = guard.ok_or(("misuse", "no such grant".to_owned()))?;
            guard.check().await.map_err(|error| told(&error))?;
            Ok(json!({ "ok": true, "held": true }))
        }
        "stall" => {
            std::thread::sleep(millis(&request["ms"]));
            Ok(json!({ "ok": true }))
        }
        "fork" => Err(("unsupported", "a Rust program does not fork".to_owned())),
        "close" => {
            let locks = with(worker).locks.get(&text(&request["locks"])).cloned();
            locks
                .ok_or(("misuse", "no such locks".to_owned()))?
                .close()
                .await;
            Ok(json!({ "ok": true }))
        }
        other => Err(("misuse", format!("what is {other}?"))),
    }
}

fn open(request: &Value) -> Result<Locks, Error> {
    let server = &request["server"];
    let service = text(&request["service"]);
    let reply = millis(&request["reply_ms"]);
    let builder = Locks::builder().service(service).reply_time(reply);
    let password = match request["password"].as_str() {
        Some(password) => format!(":{password}@"),
        None => String::new(),
    };
    let urls = |places: &Value, login: &str| {
        let places = places.as_array().cloned().unwrap_or_default();
        let url = |place: &Value| format!("redis://{login}{}/", text(place));
        places.iter().map(url).collect::<Vec<_>>()
    };
    if let Some(url) = server["url"].as_str() {
        return builder.single(url.replacen("redis://", &format!("redis://{password}"), 1));
    }
    if server["cluster"].is_array() {
        return builder.cluster(urls(&server["cluster"], &password));
    }
    let sentinels = urls(&server["sentinels"], "");
    builder.sentinel(
        text(&server["master"]),
        sentinels,
        format!("redis://{password}-/"),
    )
}

fn lock(worker: &Shared, request: &Value) -> Option<Lock> {
    let (name, key) = (text(&request["locks"]), text(&request["key"]));
    let mut worker = with(worker);
    let locks = worker.locks.get(&name)?.clone();
    let mode = &request["mode"];
    let limit = mode["limit"]
        .as_u64()
        .and_then(|limit| limit.try_into().ok());
    let lock = match (request["task"].as_str(), limit) {
        (_, Some(limit)) => locks.permit(key, limit),
        (Some(task), None) => {
            let task = worker.tasks.entry((name, task.to_owned()));
            let task = task.or_insert_with(|| locks.task());
            if mode == "shared" {
                task.shared(key)
            } else {
                task.lock(key)
            }
        }
        (None, None) if mode == "shared" => locks.shared(key),
        (None, None) => locks.lock(key),
    };
    let lock = lock.lease(millis(&request["lease_ms"]));
    let lock = match millis(&request["keep_ms"]) {
        Duration::ZERO => lock.fixed(),
        keep => lock.keep(keep),
    };
    Some(match request["wait_ms"].as_i64() {
        Some(..0) => lock.wait_forever(),
        _ => lock.wait(millis(&request["wait_ms"])),
    })
}

async fn acquire(worker: &Shared, request: &Value, cancelled: CancellationToken) -> Outcome {
    let lock = lock(worker, request).ok_or(("misuse", "no such locks".to_owned()))?;
    let guard = lock.acquire_unless(cancelled.cancelled()).await;
    let Some(guard) = guard.map_err(|error| told(&error))? else {
        return Err(("cancelled", String::new()));
    };
    let guard = Arc::new(guard);
    let (token, owner) = (guard.token(), guard.owner().to_owned());
    let number = {
        let mut worker = with(worker);
        worker.last_grant += 1;
        let number = worker.last_grant;
        worker.grants.insert(number, Arc::clone(&guard));
        number
    };
    let lost = guard.cancellation();
    let guard = Arc::downgrade(&guard);
    tokio::spawn(async move {
        lost.cancelled().await;
        // One that closing the client released is no loss.
        let Some(guard) = guard.upgrade() else { return };
        if guard.lost().await != Loss::Closed {
            println!("{}", json!({ "event": "lost", "grant": number }));
        }
    });
    Ok(json!({ "grant": number, "token": token, "owner": owner }))
}

fn told(error: &Error) -> (&'static str, String) {
    let class = match error {
        Error::Busy => "busy",
        Error::Lost(_) => "lost",
        Error::Deadlock(_) => "deadlock",
        Error::NotAlone(_) => "not-alone",
        Error::Refused { .. } => "refused",
        Error::Unavailable(_) => "unavailable",
        _ => "misuse",
    };
    (class, error.to_string())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn millis(value: &Value) -> Duration {
    Duration::from_millis(value.as_u64().unwrap_or_default())
}
