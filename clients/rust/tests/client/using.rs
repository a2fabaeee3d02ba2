//! What is built from locks: sharing, permits, tasks, several at once, leaders, work done once, and looking.

use crate::support::{info, is_free, locks, ms, waiters};
use redis_lock_client::{Error, Loss, several};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use testbed::{Expect, Server, cmd, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn readers_share_and_a_writer_is_alone() {
    let server = Server::start();
    let locks = locks(&server);
    let first = locks.shared("k").acquire().await.expect("a lock");
    let second = locks.shared("k").acquire().await.expect("a lock");
    let refused = locks.lock("k").try_acquire().await;
    assert!(matches!(refused, Err(Error::Busy)), "{refused:?}");
    first.release().await.expect("a release");
    second.release().await.expect("a release");
    let writer = locks.lock("k").acquire().await.expect("a lock");
    assert!(locks.shared("k").try_acquire().await.is_err());
    writer.downgrade().await.expect("to share it");
    let reader = locks.shared("k").try_acquire().await.expect("a lock");
    assert_ne!(reader.token(), writer.token());
    writer.check().await.expect("it is held");
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_are_counted_and_each_is_one() {
    let server = Server::start();
    let locks = locks(&server);
    let task = locks.task();
    let first = locks.permit("k", 2).acquire().await.expect("a permit");
    let second = task.permit("k", 2).acquire().await.expect("a permit");
    assert_ne!(second.owner(), task.owner());
    let refused = task.permit("k", 2).try_acquire().await;
    assert!(matches!(refused, Err(Error::Busy)), "{refused:?}");
    let holders = locks.holders("k").await.expect("an answer");
    assert_eq!(holders.len(), 2);
    assert_eq!(holders[0].token, first.token());
    assert_eq!(holders[0].owner, first.owner().as_bytes());
    assert_eq!((holders[0].limit, holders[0].holds), (Some(2), 1));
    assert!(holders[0].kept_by.is_some() && holders[0].left.is_some());
    drop(first);
    drop(
        task.permit("k", 2)
            .wait(ms(20_000))
            .acquire()
            .await
            .expect("a permit"),
    );
    second.release().await.expect("a release");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_enters_what_it_has() {
    let server = Server::start();
    let locks = locks(&server);
    let task = locks.task();
    let outer = task.lock("k").acquire().await.expect("a lock");
    let inner = task.lock("k").acquire().await.expect("a hold");
    assert_eq!(
        (outer.token(), info(&server, "k").holds),
        (inner.token(), 2)
    );
    assert!(locks.task().lock("k").try_acquire().await.is_err());
    outer.release().await.expect("a release");
    inner.release().await.expect("a release");
    assert!(is_free(&server, "k"));
    // At once, by two parts of the task: two holds all the same.
    let (one, two) = tokio::join!(
        async { task.lock("k").wait_forever().acquire().await },
        async { task.lock("k").wait_forever().acquire().await }
    );
    let (one, two) = (one.expect("a hold"), two.expect("a hold"));
    assert_eq!(info(&server, "k").holds, 2);
    one.release().await.expect("a release");
    two.check().await.expect("it is held");
    two.release().await.expect("a release");
    assert!(is_free(&server, "k"));
}

/// A task's acquire that is called off ends before the task's next one begins.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_gave_up_a_wait_may_wait_again() {
    let server = Server::start();
    let locks = locks(&server);
    let task = locks.task();
    for _ in 0..20 {
        let holder = locks.lock("k").acquire().await.expect("a lock");
        let lock = task.lock("k").wait_forever();
        let waiting = tokio::spawn(async move { lock.acquire().await });
        eventually(|| waiters(&server, "k").len() == 1, "a waiter");
        waiting.abort();
        let again = task.lock("k").wait_forever();
        let again = tokio::spawn(async move { again.acquire().await });
        holder.release().await.expect("a release");
        let guard = again.await.expect("a task").expect("a lock");
        guard.check().await.expect("nothing came late");
        guard.release().await.expect("a release");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_wait_for_each_other_are_told() {
    let server = Server::start();
    let locks = locks(&server);
    let (one, two) = (locks.task(), locks.task());
    let a = one.lock("a").acquire().await.expect("a lock");
    let b = two.lock("b").acquire().await.expect("a lock");
    let lock = one.lock("b").wait_forever();
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually(|| waiters(&server, "b").len() == 1, "a waiter");
    let refused = two.lock("a").wait_forever().acquire().await;
    assert!(matches!(refused, Err(Error::Deadlock(_))), "{refused:?}");
    b.release().await.expect("a release");
    drop((waiting.await.expect("a task").expect("a lock"), a));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_that_share_cannot_both_become_alone() {
    let server = Server::start();
    let locks = locks(&server);
    let task = locks.task();
    let _mine = task.shared("k").acquire().await.expect("a lock");
    let other = locks.shared("k").acquire().await.expect("a lock");
    let refused = task.lock("k").wait_forever().acquire().await;
    assert!(matches!(refused, Err(Error::NotAlone(_))), "{refused:?}");
    other.release().await.expect("a release");
    let alone = task
        .lock("k")
        .acquire()
        .await
        .expect("the only reader writes");
    assert!(locks.shared("k").try_acquire().await.is_err());
    alone.release().await.expect("a release");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_are_taken_all_or_none() {
    let server = Server::start();
    let locks = locks(&server);
    let task = locks.task();
    let all = [task.lock("c"), task.lock("a"), task.shared("b")];
    let guards = several::acquire(&all, ms(1000)).await.expect("all");
    let keys: Vec<_> = guards.iter().map(|guard| guard.key().to_vec()).collect();
    assert_eq!(keys, [b"c", b"a", b"b"]);
    assert!(guards[1].token() < guards[2].token() && guards[2].token() < guards[0].token());
    several::release(guards).await.expect("a release");
    let _held = locks.lock("b").acquire().await.expect("a lock");
    let refused = several::acquire(&all, ms(200)).await;
    assert!(matches!(refused, Err(Error::Busy)), "{refused:?}");
    assert!(is_free(&server, "a") && is_free(&server, "c"));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_leads_and_the_next_follows() {
    let server = Server::start();
    let leaders = Arc::new(AtomicUsize::new(0));
    let terms = Arc::new(AtomicUsize::new(0));
    let lead = || {
        let lock = locks(&server).lock("leader");
        let (leaders, terms) = (Arc::clone(&leaders), Arc::clone(&terms));
        tokio::spawn(async move {
            let work = |_| async {
                terms.fetch_add(1, SeqCst);
                leaders.fetch_add(1, SeqCst);
                let _leaving = Leaving(Arc::clone(&leaders));
                std::future::pending::<()>().await;
            };
            lock.lead(work).await
        })
    };
    let both = [lead(), lead()];
    eventually(|| waiters(&server, "leader").len() == 1, "one to wait");
    assert_eq!((leaders.load(SeqCst), terms.load(SeqCst)), (1, 1));
    cmd!(server.connection(), "DEL", "leader").int();
    eventually(
        || terms.load(SeqCst) == 2 && leaders.load(SeqCst) == 1,
        "the next",
    );
    eventually(
        || waiters(&server, "leader").len() == 1,
        "the first to wait again",
    );
    for task in both {
        task.abort();
    }
    eventually(|| is_free(&server, "leader"), "nobody to lead");
}

struct Leaving(Arc<AtomicUsize>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_is_done_once() {
    let server = Server::start();
    let locks = locks(&server);
    let result = Arc::new(AtomicUsize::new(0));
    let worked = Arc::new(AtomicUsize::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let lock = locks.lock("k").wait_forever();
        let (result, worked) = (Arc::clone(&result), Arc::clone(&worked));
        tasks.spawn(async move {
            let find = || async { Ok(Some(result.load(SeqCst)).filter(|found| *found > 0)) };
            let work = |_| async {
                tokio::time::sleep(ms(50)).await;
                result.store(42, SeqCst);
                worked.fetch_add(1, SeqCst);
                Ok::<_, Error>(42)
            };
            lock.once(find, work).await.expect("a result")
        });
    }
    assert_eq!(tasks.join_all().await, [42; 20]);
    assert_eq!(worked.load(SeqCst), 1);
    eventually(|| is_free(&server, "k"), "all to be released");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_unlocked_by_force() {
    let server = Server::start();
    let locks = locks(&server);
    let guard = locks.lock("k").acquire().await.expect("a lock");
    assert!(locks.force_unlock("k").await.expect("an answer"));
    assert_eq!(guard.lost().await, Loss::NotHeld);
    assert!(locks.holders("k").await.expect("an answer").is_empty());
    assert!(!locks.force_unlock("k").await.expect("an answer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_replicas_must_have() {
    let server = Server::start();
    let locks = locks(&server);
    let refused = locks.lock("k").replicas(1).acquire().await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    eventually(|| is_free(&server, "k"), "it to be given back");
    let replica = server.replica();
    server.wait_for_sync(&replica);
    let guard = locks.lock("k").replicas(1).acquire().await.expect("a lock");
    guard.check().await.expect("it is held");
    let lock = locks.lock("k").replicas(1).wait_forever();
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually(|| waiters(&server, "k").len() == 1, "a waiter");
    guard.release().await.expect("a release");
    drop(waiting.await.expect("a task").expect("a lock"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_works_own_error_is_told() {
    #[derive(Debug, PartialEq)]
    struct Own;
    impl From<Error> for Own {
        fn from(error: Error) -> Self {
            panic!("{error}")
        }
    }
    let server = Server::start();
    let lock = locks(&server).lock("k");
    // The release finds the lock lost, and the work had failed already.
    let work = lock.with_lock(async |_| {
        cmd!(server.connection(), "DEL", "k").int();
        Err::<(), _>(Own)
    });
    assert_eq!(work.await, Err(Own));
}

/// As long as it takes.
#[tokio::test(flavor = "multi_thread")]
async fn several_with_no_end_of_the_time() {
    let server = Server::start();
    let locks = locks(&server);
    let both = [locks.lock("a"), locks.lock("b")];
    let guards = several::acquire(&both, std::time::Duration::MAX).await;
    several::release(guards.expect("both"))
        .await
        .expect("a release");
}

/// Those who share the lock for another end may stay for long: whoever finds nothing stands in line.
#[tokio::test(flavor = "multi_thread")]
async fn work_once_beside_a_reader_that_stays() {
    let server = Server::start();
    let locks = locks(&server);
    let reader = locks.shared("k").acquire().await.expect("a lock");
    let once = async |wait: u64| {
        let lock = locks.lock("k").wait(ms(wait));
        let nothing = || async { Ok::<_, Error>(None) };
        lock.once(nothing, |_| async { Ok(1) }).await
    };
    let before = crate::support::calls(&server, "lock.acquire");
    let outcome = tokio::time::timeout(ms(5000), once(300)).await;
    assert!(matches!(outcome, Ok(Err(Error::Busy))), "{outcome:?}");
    assert!(crate::support::calls(&server, "lock.acquire") < before + 10);
    let (outcome, ()) = tokio::join!(once(20_000), async {
        while waiters(&server, "k").is_empty() {
            tokio::time::sleep(ms(1)).await;
        }
        reader.release().await.expect("a release");
    });
    assert_eq!(outcome.expect("work"), 1);
}

/// A lock that several have at once would have it done as often.
#[tokio::test(flavor = "multi_thread")]
async fn work_is_done_once_under_an_exclusive_lock_only() {
    let server = Server::start();
    let locks = locks(&server);
    for lock in [locks.shared("k"), locks.permit("k", 2)] {
        let refused = lock.once(async || Ok(None), async |_| Ok::<_, Error>(1));
        let refused = refused.await;
        assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
    }
    assert!(is_free(&server, "k"));
}

/// One of several that ended while the others were waited for.
#[tokio::test(flavor = "multi_thread")]
async fn several_of_which_one_is_lost_meanwhile_are_none() {
    let server = Server::start();
    let locks = locks(&server);
    let holder = locks.lock("b").acquire().await.expect("a lock");
    let both = [locks.lock("a"), locks.lock("b")];
    let losses = || server.info_field("lock", "lock_kept_closes");
    let waiting = tokio::spawn(async move { several::acquire(&both, ms(20_000)).await });
    eventually(|| waiters(&server, "b").len() == 1, "a waiter");
    cmd!(server.connection(), "DEL", "a").int();
    eventually(|| losses() == "1", "the keeper to be told");
    eventually(
        || server.info_field("clients", "connected_clients") != "1" && is_free(&server, "a"),
        "the loss",
    );
    tokio::time::sleep(ms(100)).await;
    holder.release().await.expect("a release");
    let taken = waiting.await.expect("a task");
    assert!(matches!(taken, Err(Error::Lost(_))), "{taken:?}");
    eventually(|| is_free(&server, "b"), "the other one to be released");
}

/// What the owner has already is acknowledged, too, and stands where that fails.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_must_have_what_is_entered_again() {
    let server = Server::start();
    let replica = server.replica();
    server.wait_for_sync(&replica);
    let locks = locks(&server);
    let task = locks.task();
    for lock in [task.lock("k"), locks.lock("k").owner("me")] {
        let outer = lock.acquire().await.expect("a lock");
        let inner = lock.clone().replicas(1).acquire().await.expect("a hold");
        let refused = lock.clone().replicas(2).wait(ms(0)).acquire().await;
        assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
        eventually(
            || info(&server, "k").holds == 2,
            "the hold to be given back",
        );
        outer.check().await.expect("it is held");
        outer.release().await.expect("a release");
        inner.release().await.expect("a release");
        assert!(is_free(&server, "k"));
    }
}
