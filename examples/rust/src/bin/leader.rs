//! Several processes run, and one leads. When it is stopped, another one does at once; when it dies, a lease later.

use std::sync::Arc;
use std::time::Duration;

use redis_lock_client::{Error, Guard, Locks};
use tokio::signal::unix::{SignalKind, signal};

/// Is dropped when the lock is lost, because somebody else leads then.
async fn work(guard: Arc<Guard>) -> Result<(), Error> {
    println!("leading, with token {}", guard.token());
    std::future::pending().await
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1".to_owned());
    let builder = Locks::builder()
        .service("worker")
        .lease(Duration::from_secs(3));
    let locks = builder.single(url)?;
    let mut stop = signal(SignalKind::terminate()).expect("a handler of SIGTERM");
    let lock = locks.lock("lock:leader");
    tokio::select! {
        Err(error) = lock.lead(work) => Err(error),
        _ = stop.recv() => locks.close().await,
    }
}
