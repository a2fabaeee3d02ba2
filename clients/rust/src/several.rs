//! Several locks at once.

use crate::server::commands::after;
use crate::{Error, Guard, Lock};
use std::time::Duration;
use tokio::time::Instant;

/// Takes all of these locks, or none: one after the other in the order of their keys, so that two who do
/// this never wait for each other; where no more are free in the time to wait, those that were taken are
/// released, the last one first. Best made by one [`Task`](crate::Task). The guards come in the order of the
/// locks.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let server = testbed::Server::start();
/// # let url = format!("redis://127.0.0.1:{}/", server.port());
/// # let locks = redis_lock_client::Locks::open(url)?;
/// use redis_lock_client::several;
/// use std::time::Duration;
///
/// let task = locks.task();
/// let both = [task.lock("lock:from"), task.shared("lock:rates")];
/// let guards = several::acquire(&both, Duration::from_secs(5)).await?;
/// several::release(guards).await?;
/// # Ok::<_, redis_lock_client::Error>(())
/// # }).unwrap();
/// ```
///
/// # Errors
/// Those of [`Lock::acquire`], of the first lock that could not be taken; [`Error::Lost`] when one was lost while the
/// others were waited for.
pub async fn acquire(locks: &[Lock], wait: Duration) -> Result<Vec<Guard>, Error> {
    let until = (wait < Duration::MAX).then(|| after(Instant::now(), wait));
    let mut order: Vec<usize> = (0..locks.len()).collect();
    order.sort_by_key(|place| locks[*place].key());
    let mut taken: Vec<(usize, Guard)> = Vec::new();
    for place in order {
        let left = until.map_or(Duration::MAX, |until| {
            until.saturating_duration_since(Instant::now())
        });
        match locks[place].clone().wait(left).acquire().await {
            Ok(guard) => taken.push((place, guard)),
            Err(error) => {
                let taken = taken.into_iter().map(|(_, guard)| guard);
                if let Err(other) = release(taken.collect()).await {
                    tracing::warn!(error = %other, "a lock was not released");
                }
                return Err(error);
            }
        }
    }
    taken.sort_by_key(|(place, _)| *place);
    let guards: Vec<_> = taken.into_iter().map(|(_, guard)| guard).collect();
    // While the others were waited for.
    if let Some(lost) = guards.iter().find(|guard| !guard.is_held()) {
        let loss = lost.lost().await;
        let _ = release(guards).await;
        return Err(Error::Lost(loss));
    }
    Ok(guards)
}

/// Releases them, the last one first, each of them whatever comes of the others. When a server gives no answer
/// in time, those that are left are released in the background.
///
/// # Errors
/// The first error of [`Guard::release`].
pub async fn release(guards: Vec<Guard>) -> Result<(), Error> {
    let mut outcome = Ok(());
    let mut is_answered = true;
    for guard in guards.into_iter().rev() {
        if !is_answered {
            drop(guard);
            continue;
        }
        let released = guard.release().await;
        is_answered = !matches!(released, Err(Error::Unavailable(_)));
        outcome = outcome.and(released);
    }
    outcome
}
