//! Work in tasks of its own, which a shutdown waits for: acquires, and what goes on when nobody waits for
//! it, as releases of dropped guards and waits that were cancelled.

use crate::Error;
use std::convert::Infallible;
use std::panic::resume_unwind;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::Instrument;

/// Starts such work on the runtime on which the client was made, from wherever a guard is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Background {
    runtime: Handle,
    tasks: TaskTracker,
    /// The runtime has ended: nothing runs any more.
    ended: CancellationToken,
    /// Somebody may want to know of that.
    _interest: mpsc::Sender<Infallible>,
}

impl Background {
    /// On the runtime that this is called on.
    pub(crate) fn here() -> Result<Self, Error> {
        let runtime = Handle::try_current()
            .map_err(|_| Error::misuse("a client is made within a tokio runtime"))?;
        let ended = CancellationToken::new();
        let (interest, mut is_left) = mpsc::channel(1);
        let told = ended.clone().drop_guard();
        // Dropped with the runtime, or over when nobody is there any more.
        runtime.spawn(async move {
            is_left.recv().await;
            told.disarm();
        });
        Ok(Self {
            runtime,
            tasks: TaskTracker::new(),
            ended,
            _interest: interest,
        })
    }

    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    pub(crate) fn start(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(work, &self.runtime);
    }

    /// Does something that somebody waits for. When that one is gone, it is dropped where it stands.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let work = work.in_current_span();
        told(AbortOnDropHandle::new(self.tasks.spawn_on(work, &self.runtime)).await)
    }

    /// The same, but carried on when that one is gone.
    pub(crate) async fn carry_on<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let work = work.in_current_span();
        told(self.tasks.spawn_on(work, &self.runtime).await)
    }

    /// Does the end of it all, which waits for the rest: carried on when nobody waits for it.
    pub(crate) async fn see_through(&self, work: impl Future<Output = ()> + Send + 'static) {
        // Where the runtime has ended, so has the client.
        let _ = self.runtime.spawn(work).await;
    }

    /// Starts what runs as long as the client does, and is not waited for.
    pub(crate) fn start_service(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// Waits until all that has been started is done, but not longer than this.
    pub(crate) async fn finish(&self, patience: Duration) {
        self.tasks.close();
        if tokio::time::timeout(patience, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("calls in the background are not done in {patience:?}");
        }
    }
}

fn told<T>(outcome: Result<Result<T, Error>, JoinError>) -> Result<T, Error> {
    match outcome {
        Ok(outcome) => outcome,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime has ended, and the client with it.
            Err(_) => Err(Error::closed()),
        },
    }
}
