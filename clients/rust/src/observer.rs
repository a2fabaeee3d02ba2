//! What a program is told of its locks, for metrics.

use crate::server::Keeper;
use crate::{Error, Guard, Loss};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Is told what happens to locks: set by [`Builder::observer`](crate::Builder::observer), with the methods that
/// are needed.
///
/// A method may be called by any thread of the runtime, and must not block. A panic of it is caught and told
/// by `tracing`: it hurts no lock. The feature `opentelemetry` has one that is made.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let server = testbed::Server::start();
/// # let url = format!("redis://127.0.0.1:{}/", server.port());
/// use redis_lock_client::{Locks, Loss, Observer};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// #[derive(Default)]
/// struct Losses(AtomicUsize);
///
/// impl Observer for Losses {
///     fn lost(&self, _key: &[u8], _loss: Loss) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
///
/// let losses = Arc::new(Losses::default());
/// let locks = Locks::builder().observer(Arc::clone(&losses)).single(url)?;
/// # locks.lock("lock:a").acquire().await?.release().await?;
/// # assert_eq!(losses.0.load(Ordering::Relaxed), 0);
/// # Ok::<_, redis_lock_client::Error>(())
/// # }).unwrap();
/// ```
#[allow(unused_variables)]
pub trait Observer: Send + Sync + 'static {
    /// A lock was taken, after so long.
    fn acquired(&self, key: &[u8], took: Duration) {}

    /// A lock was not taken, and that was known after so long; without an error where the caller called it off.
    fn refused(&self, key: &[u8], took: Duration, error: Option<&Error>) {}

    /// A grant was released, with all its holds, after it was held for so long. The error is that of the
    /// release.
    fn released(&self, key: &[u8], held: Duration, error: Option<&Error>) {}

    /// A grant has ended otherwise than by its release.
    fn lost(&self, key: &[u8], loss: Loss) {}

    /// The connection on which a server keeps the grants has ended, or cannot be opened; they stand for as
    /// long as their leases. Of a quorum: a server does not answer.
    fn keeper_down(&self, server: &str, why: &str) {}

    /// There is such a connection again, or that server answers again.
    fn keeper_up(&self, server: &str) {}
}

/// One that is shared.
impl<O: Observer + ?Sized> Observer for Arc<O> {
    fn acquired(&self, key: &[u8], took: Duration) {
        (**self).acquired(key, took);
    }

    fn refused(&self, key: &[u8], took: Duration, error: Option<&Error>) {
        (**self).refused(key, took, error);
    }

    fn released(&self, key: &[u8], held: Duration, error: Option<&Error>) {
        (**self).released(key, held, error);
    }

    fn lost(&self, key: &[u8], loss: Loss) {
        (**self).lost(key, loss);
    }

    fn keeper_down(&self, server: &str, why: &str) {
        (**self).keeper_down(server, why);
    }

    fn keeper_up(&self, server: &str) {
        (**self).keeper_up(server);
    }
}

/// Tells the observer, where there is one.
#[derive(Clone, Default)]
pub(crate) struct Reports(Option<Arc<dyn Observer>>);

impl Reports {
    pub(crate) fn to(observer: impl Observer) -> Self {
        Self(Some(Arc::new(observer)))
    }

    pub(crate) fn tell(&self, call: impl FnOnce(&dyn Observer)) {
        if let Some(observer) = &self.0
            && catch_unwind(AssertUnwindSafe(|| call(&**observer))).is_err()
        {
            tracing::error!("the observer of locks has panicked");
        }
    }

    /// An acquire begins.
    pub(crate) fn acquiring<'a>(&'a self, key: &'a [u8]) -> Acquiring<'a> {
        Acquiring {
            reports: self,
            key,
            begun: Instant::now(),
            is_over: false,
        }
    }
}

impl fmt::Debug for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Some" } else { "None" })
    }
}

/// An acquire. When this is dropped before it is over, it has been called off.
pub(crate) struct Acquiring<'a> {
    reports: &'a Reports,
    key: &'a [u8],
    begun: Instant,
    is_over: bool,
}

impl Acquiring<'_> {
    pub(crate) fn over(mut self, taken: Result<Option<&Guard>, &Error>) {
        self.is_over = true;
        match taken {
            Ok(Some(guard)) => guard.announce(self.begun.elapsed()),
            Ok(None) => self.refused(None),
            Err(error) => self.refused(Some(error)),
        }
    }

    fn refused(&self, error: Option<&Error>) {
        let took = self.begun.elapsed();
        self.reports.tell(|it| it.refused(self.key, took, error));
    }
}

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.refused(None);
        }
    }
}

/// Whether there is a connection that keeps the locks of a server, as was told last.
pub(crate) struct Reach {
    reports: Reports,
    server: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_down: bool,
    /// The end of an older one is no event.
    latest: Weak<Keeper>,
}

impl Reach {
    pub(crate) fn new(reports: &Reports, server: impl Into<String>) -> Self {
        Self {
            reports: reports.clone(),
            server: server.into(),
            state: Mutex::default(),
        }
    }

    /// There is none, or the server does not answer.
    pub(crate) fn down(&self, why: &str) {
        self.tell_down(&mut self.state(), why);
    }

    /// The server answers.
    pub(crate) fn up(&self) {
        self.tell_up(&mut self.state());
    }

    /// There is this one.
    pub(crate) fn opened(&self, keeper: &Arc<Keeper>) {
        let mut state = self.state();
        state.latest = Arc::downgrade(keeper);
        self.tell_up(&mut state);
    }

    /// It has ended. Whoever finds that first tells it, before there is another one.
    pub(crate) fn ended(&self, keeper: &Arc<Keeper>, why: &str) {
        let mut state = self.state();
        if state.latest.as_ptr() == Arc::as_ptr(keeper) {
            state.latest = Weak::new();
            self.tell_down(&mut state, why);
        }
    }

    fn tell_down(&self, state: &mut State, why: &str) {
        if !std::mem::replace(&mut state.is_down, true) {
            self.reports.tell(|it| it.keeper_down(&self.server, why));
        }
    }

    fn tell_up(&self, state: &mut State) {
        if std::mem::take(&mut state.is_down) {
            self.reports.tell(|it| it.keeper_up(&self.server));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
