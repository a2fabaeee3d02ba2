//! Readers share a lock, and a writer is alone.

use std::sync::Arc;

use redis_lock_client::{Error, ErrorKind, Locks};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

const READERS: usize = 5;

async fn read(locks: Locks, all: Arc<Barrier>) -> Result<(), Error> {
    let guard = locks.shared("lock:catalogue").acquire().await?;
    // All readers are inside at the same time.
    all.wait().await;
    guard.release().await
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1".to_owned());
    let locks = Locks::builder().service("catalogue").single(url)?;

    let all = Arc::new(Barrier::new(READERS));
    let readers = (0..READERS).map(|_| read(locks.clone(), Arc::clone(&all)));
    for read in readers.collect::<JoinSet<_>>().join_all().await {
        read?;
    }
    println!("{READERS} readers at a time");

    let writer = locks.lock("lock:catalogue").acquire().await?;
    let reader = locks.shared("lock:catalogue").try_acquire().await;
    let is_alone = reader.is_err_and(|error| error.kind() == ErrorKind::Busy);
    println!("the writer is {}alone", if is_alone { "" } else { "not " });
    writer.release().await?;
    locks.close().await
}
