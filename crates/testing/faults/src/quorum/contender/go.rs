//! Locks by the Go client's quorum, in a process of its own: it dies, stops and continues with the contender.

use crate::quorum::event::Orders;
use history::{Outcome, Refusal};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testbed::Child;
use tokio::sync::oneshot;

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Answer>>>>;

/// The result of an order.
#[derive(Deserialize)]
struct Answer {
    id: u64,
    token: u64,
    /// In microseconds.
    left: u64,
    kind: String,
    error: String,
}

/// The process.
pub(super) struct Go {
    child: Child,
    last_id: AtomicU64,
    waiting: Waiting,
}

/// A lock that is held.
pub(super) struct Hold {
    go: Arc<Go>,
    id: u64,
    pub(super) token: u64,
}

/// Builds the program of the process, or starts it.
pub(crate) fn start_script() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../clients/go/quorumtrial/start"
    ))
}

impl Go {
    pub(super) fn open(orders: &Orders) -> Result<Arc<Self>, String> {
        let addresses = orders.ports.iter().map(|port| format!("127.0.0.1:{port}"));
        let mut command = Command::new(start_script());
        command
            .arg(orders.leases.0.to_string())
            .args(addresses)
            .stderr(Stdio::null()); // each connection that is cut
        let (child, output) =
            Child::start(&mut command).map_err(|e| format!("the Go client: {e}"))?;
        let waiting = Waiting::default();
        let answered = Arc::clone(&waiting);
        std::thread::spawn(move || {
            for line in output {
                let answer: Answer = serde_json::from_str(&line).expect("an answer");
                let sender = answered.lock().expect("the table").remove(&answer.id);
                let _ = sender.map(|sender| sender.send(answer));
            }
            answered.lock().expect("the table").clear();
        });
        Ok(Arc::new(Self {
            child,
            last_id: AtomicU64::new(0),
            waiting,
        }))
    }

    fn new_id(&self) -> u64 {
        self.last_id.fetch_add(1, SeqCst) + 1
    }

    async fn ask(&self, id: u64, order: Value) -> Result<Answer, String> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.lock().expect("the table").insert(id, sender);
        let written = self.child.write(&order.to_string());
        written.map_err(|e| e.to_string())?;
        receiver
            .await
            .map_err(|_| "the Go client has ended".to_owned())
    }

    /// With a lease, nobody renews it.
    pub(super) async fn acquire(
        self: &Arc<Self>,
        key: &str,
        lease: Option<u64>,
        wait: u64,
    ) -> Result<Option<Hold>, String> {
        let id = self.new_id();
        let order = json!({"id": id, "do": "acquire", "key": key, "wait": wait, "fixed": lease.unwrap_or(0)});
        let answer = self.ask(id, order).await?;
        match answer.kind.as_str() {
            "" => Ok(Some(Hold {
                go: Arc::clone(self),
                id,
                token: answer.token,
            })),
            "busy" => Ok(None),
            "unavailable" => Err("no majority".to_owned()),
            _ => Err(answer.error),
        }
    }

    pub(super) async fn close(&self) {
        let id = self.new_id();
        let _ = self.ask(id, json!({"id": id, "do": "close"})).await;
        self.child.kill();
    }
}

impl Hold {
    pub(super) async fn valid_for(&self) -> Duration {
        let answer = self
            .go
            .ask(self.id, json!({"id": self.id, "do": "left"}))
            .await;
        Duration::from_micros(answer.map_or(0, |answer| answer.left))
    }

    pub(super) async fn release(self) -> Outcome {
        let order = json!({"id": self.id, "do": "release"});
        match self.go.ask(self.id, order).await {
            Ok(answer) if answer.kind.is_empty() => Outcome::Left(0),
            Ok(answer) if answer.kind == "lost" => Outcome::Refused(Refusal::NotHeld),
            _ => Outcome::Lost,
        }
    }
}
