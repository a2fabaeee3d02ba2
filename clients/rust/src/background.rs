//! The thread of this crate, its runtime and its clock.

use std::future::pending;
use std::pin::Pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::time::{Sleep, Timeout};

/// The runtime of the sessions, on a thread of its own: user code that blocks a runtime stops none of them.
pub(crate) fn background() -> &'static Handle {
    static RUNTIME: OnceLock<Handle> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let handle = runtime.handle().clone();
        let thread = std::thread::Builder::new().name("redis-lock".to_owned());
        thread
            .spawn(move || runtime.block_on(pending::<()>()))
            .expect("a thread");
        handle
    })
}

/// Sleeps by the clock of the background, whatever becomes of the runtime of the caller.
pub(crate) fn sleep(time: Duration) -> Sleep {
    let _background = background().enter();
    tokio::time::sleep(time)
}

/// Keeps the clock ticking while calls are made: a limit wakes its thread only if nothing else does so before.
fn tick() {
    const TICK: Duration = Duration::from_millis(250);
    static IS_USED: AtomicBool = AtomicBool::new(false);
    static TICKS: AtomicBool = AtomicBool::new(false);
    IS_USED.store(true, Ordering::Relaxed);
    if !TICKS.swap(true, Ordering::Relaxed) {
        background().spawn(async {
            while IS_USED.swap(false, Ordering::Relaxed) {
                tokio::time::sleep(TICK).await;
            }
            TICKS.store(false, Ordering::Relaxed);
        });
    }
}

/// Limits a future by the clock of the background.
pub(crate) fn timeout<F: Future>(limit: Duration, future: F) -> Timeout<F> {
    tick();
    let _background = background().enter();
    tokio::time::timeout(limit, future)
}

type Call<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A call that goes on in the background when its caller drops it.
struct Running<T: Send + 'static>(Option<Call<T>>);

impl<T: Send + 'static> Drop for Running<T> {
    fn drop(&mut self) {
        if let Some(call) = self.0.take().filter(|_| !std::thread::panicking()) {
            background().spawn(call);
        }
    }
}

/// Runs a call on the runtime of its caller, or in the background if there is none. It runs to its end, also if the
/// returned future is dropped.
pub(crate) async fn run<T: Send + 'static>(call: impl Future<Output = T> + Send + 'static) -> T {
    let mut running = Running(Some(Box::pin(call)));
    if Handle::try_current().is_ok() {
        let result = running.0.as_mut().expect("a call").await;
        running.0 = None; // else it would go on
        return result;
    }
    let call = running.0.take().expect("a call");
    match background().spawn(call).await {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
