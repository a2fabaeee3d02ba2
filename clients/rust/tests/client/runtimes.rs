//! Any number of runtimes use the same locks.

use crate::support::*;
use redis_lock_client::{Error, Locks};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread;
use testbed::Server;
use tokio::runtime::{Builder, Runtime};

fn hold_and_release(locks: &Locks) -> Result<(), Error> {
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let guard = locks.lock("k").acquire().await?;
        guard.check().await?;
        guard.release().await
    })
}

/// One after the other, and each is shut down before the next: as tests and short-lived programs have them.
#[test]
fn one_runtime_after_the_other() {
    let server = Server::start();
    let locks = locks(&server);
    for _ in 0..3 {
        hold_and_release(&locks).expect("a lock");
    }
    let runtime = || Runtime::new().expect("a runtime");
    let acquired = runtime().block_on(locks.lock("held").acquire());
    let guard = acquired.expect("a lock");
    assert!(guard.is_held());
    runtime().block_on(guard.release()).expect("a release");
    assert!(is_free(&server, "held"));
}

#[test]
fn two_runtimes_at_once() {
    let server = Server::start();
    let locks = locks(&server);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..20).for_each(|_| hold_and_release(&locks).expect("a lock")));
        }
    });
}

/// A runtime that is blocked stops no session, and a runtime needs no timers.
#[test]
fn a_blocked_runtime_loses_nothing() {
    let server = Server::start();
    let locks = locks_at(server.port(), settings().lease(ms(1000)).silence(ms(1000)));
    let runtime = Builder::new_current_thread()
        .enable_io()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let guard = locks.lock("k").acquire().await.expect("a lock");
        thread::sleep(ms(3500)); // the time is tested
        assert!(guard.is_held());
        guard.release().await.expect("a release");
    });
}

/// Without a runtime of tokio, calls run on the thread of the crate.
#[test]
fn no_runtime_at_all() {
    let server = Server::start();
    let locks = locks(&server);
    block_on(async {
        let guard = locks.lock("k").acquire().await.expect("a lock");
        guard.release().await.expect("a release");
    });
}

/// Runs a future on this thread, which sleeps until the future is woken.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Arc::new(Unpark(thread::current())).into();
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}
