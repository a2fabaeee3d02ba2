//! A contender: a process of some tasks that take locks and write to what these guard.

mod go;
mod locks;
mod task;
mod without_raise;

pub(super) use go::start_script;

use super::event::{Event, Orders};
use crate::register::SqlRegister;
use locks::Locks;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use task::Task;
use tokio::sync::watch;

/// How long the last releases may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A contender: works by these orders until standard input ends, which it also does with whoever has
/// started this process.
///
/// # Errors
/// Why it could not work.
pub fn contend(orders: &str) -> Result<(), String> {
    let orders: Orders = serde_json::from_str(orders).map_err(|e| format!("the orders: {e}"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| format!("a runtime: {e}"))?;
    let worked = runtime.block_on(work(&Arc::new(orders)));
    runtime.shutdown_timeout(PATIENCE);
    worked
}

async fn work(orders: &Arc<Orders>) -> Result<(), String> {
    let locks = Locks::open(orders)?;
    let register = Arc::new(Mutex::new(SqlRegister::open(&orders.register)));
    let (close, closing) = watch::channel(false);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        let _ = close.send(true);
    });
    let tasks: Vec<_> = (0..orders.tasks)
        .map(|number| {
            let (orders, register) = (Arc::clone(orders), Arc::clone(&register));
            let task = Task::new(number, orders, locks.clone(), register);
            tokio::spawn(task.run(closing.clone()))
        })
        .collect();
    for task in tasks {
        task.await.map_err(|e| format!("a task: {e}"))?;
    }
    locks.close().await;
    Ok(())
}

/// Tells it at once. Whoever listens may be gone; then this process is about to end too.
fn tell(event: &Event) {
    let Ok(mut line) = serde_json::to_vec(event) else {
        return;
    };
    line.push(b'\n');
    let _ = std::io::stdout().lock().write_all(&line);
}
