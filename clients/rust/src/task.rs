//! One owner for several locks.

use crate::lock::Lock;
use crate::locks::Locks;
use crate::owner::{Owner, TaskOwner};
use crate::request::Mode;
use std::sync::Arc;

/// What is one owner to the server, made by [`Locks::task`]: one flow of work, which passes it along.
///
/// A lock that it has already it enters once more, and when it would wait for another task that waits for
/// it, it is told [`Error::Deadlock`](crate::Error::Deadlock) at once. It is not for two that are to keep
/// each other out.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let server = testbed::Server::start();
/// # let url = format!("redis://127.0.0.1:{}/", server.port());
/// # let locks = redis_lock_client::Locks::open(url)?;
/// let task = locks.task();
/// let account = task.lock("lock:account:7").acquire().await?;
/// let again = task.lock("lock:account:7").acquire().await?;
/// assert_eq!(account.token(), again.token());
/// # Ok::<_, redis_lock_client::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Task {
    locks: Locks,
    owner: Arc<TaskOwner>,
}

impl Task {
    pub(crate) fn new(locks: Locks, owner: TaskOwner) -> Self {
        let owner = Arc::new(owner);
        Self { locks, owner }
    }

    /// The name by which it asks the server for its next lock. After a call that was called off, or got no
    /// answer, that is another one: so nothing late can meet it. What it holds keeps its
    /// [owner](crate::Guard::owner).
    #[must_use]
    pub fn owner(&self) -> String {
        self.owner.name()
    }

    /// As [`Locks::lock`], by this owner.
    pub fn lock(&self, key: impl AsRef<[u8]>) -> Lock {
        self.own(key, Mode::Exclusive)
    }

    /// As [`Locks::shared`], by this owner.
    pub fn shared(&self, key: impl AsRef<[u8]>) -> Lock {
        self.own(key, Mode::Shared)
    }

    /// As [`Locks::permit`]: each permit has an owner of its own, in a task too.
    pub fn permit(&self, key: impl AsRef<[u8]>, of: u32) -> Lock {
        self.locks.permit(key, of)
    }

    fn own(&self, key: impl AsRef<[u8]>, mode: Mode) -> Lock {
        Lock::new(self.locks.clone(), key.as_ref(), mode).by(Owner::Task(Arc::clone(&self.owner)))
    }
}
