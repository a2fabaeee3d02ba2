//! Several locks, acquired together.

use crate::error::{Error, ErrorKind};
use crate::guard::Guard;
use crate::lock::Lock;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Acquires several locks, or none: one after the other in the order of their keys, so that two callers never wait for
/// each other. They have one time to wait; none: without a limit. Locks of one [`Task`](crate::Task) have one owner. The
/// guards are in the order of the locks.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let locks = redis_lock_client::testing::StandIn::new().locks();
/// use redis_lock_client::several;
/// use std::time::Duration;
///
/// let task = locks.task();
/// let seats = [task.lock("lock:seat:2"), task.lock("lock:seat:1")];
/// let guards = several::acquire(&seats, Some(Duration::from_secs(10))).await?;
/// assert_eq!(guards[0].key(), b"lock:seat:2");
/// several::release(guards).await?;
/// # Ok::<_, redis_lock_client::Error>(())
/// # }).unwrap();
/// ```
///
/// # Errors
/// Those of [`Lock::acquire`], of the first lock that could not be acquired; [`Lost`](ErrorKind::Lost) if one was lost
/// while the others were waited for.
pub async fn acquire(locks: &[Lock], wait: Option<Duration>) -> Result<Vec<Guard>, Error> {
    let begun = Instant::now();
    let mut order: Vec<usize> = (0..locks.len()).collect();
    order.sort_by_key(|place| locks[*place].key());
    let (mut taken, mut failure) = (BTreeMap::new(), None);
    for place in order {
        let mut lock = locks[place].clone();
        if let Some(wait) = wait {
            lock = lock.wait(wait.saturating_sub(begun.elapsed()));
        }
        match lock.acquire().await {
            Ok(guard) => drop(taken.insert(place, guard)),
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    let guards: Vec<Guard> = taken.into_values().collect();
    let failure = failure.or_else(|| guards.iter().find_map(Guard::loss));
    let Some(failure) = failure else {
        return Ok(guards);
    };
    let _ = release(guards).await; // the first failure counts
    Err(failure)
}

/// Releases them, the last one first, each of them whatever comes of the others. When a server gives no answer in time,
/// those that are left are released in the background.
///
/// # Errors
/// The first error of [`Guard::release`].
pub async fn release(guards: Vec<Guard>) -> Result<(), Error> {
    let mut outcome = Ok(());
    for guard in guards.into_iter().rev() {
        if outcome
            .as_ref()
            .is_err_and(|error: &Error| error.kind() == ErrorKind::Unavailable)
        {
            continue; // drops the guard
        }
        outcome = outcome.and(guard.release().await);
    }
    outcome
}
