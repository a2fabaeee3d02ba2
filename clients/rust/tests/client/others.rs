//! What others have by now, in the name of an owner of this process: it is not taken from them.

use crate::support::{calls, info, is_free, kept_by, locks, locks_at, ms, settings, waiters};
use redis_lock_client::{Error, Guard, Lock, Loss};
use testbed::{Expect, Fault, Proxy, Server, cmd, eventually};

/// A task has handed it on: it does not enter it again, whoever has it now.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_does_not_enter_what_it_has_handed_on() {
    let server = Server::start();
    let (one, two) = (locks(&server), locks(&server));
    for other in [&one, &two] {
        let task = one.task();
        let kept = task.lock("other").acquire().await.expect("a lock");
        let guard = task.lock("k").acquire().await.expect("a lock");
        let owner = guard.owner().to_owned();
        let token = guard.detach().await.expect("it is left");
        let entered = task.lock("k").try_acquire().await;
        assert!(matches!(entered, Err(Error::Busy)), "nobody keeps it");
        let adopted = other.adopt("k", owner, token).await.expect("the grant");
        let entered = task.lock("k").try_acquire().await;
        assert!(matches!(entered, Err(Error::Busy)), "{entered:?}");
        adopted.release().await.expect("a release");
        let own = task.lock("k").acquire().await.expect("a lock");
        assert!(own.token() > token);
        own.release().await.expect("a release");
        let again = task.lock("other").acquire().await.expect("a hold");
        assert_eq!(again.token(), kept.token());
        again.release().await.expect("a release");
        kept.release().await.expect("a release");
    }
}

/// Who may not look who keeps it sends nothing when its time is over.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_lost_without_an_answer_may_be_kept_by_others() {
    for may_look in [true, false] {
        for at_most in [true, false] {
            let server = Server::start();
            let proxy = Proxy::start(server.port());
            let mut user = testbed::redis::cmd("ACL");
            user.arg(&["SETUSER", "worker", "on", ">pw", "~*", "+@all"]);
            if !may_look {
                user.arg("-lock.holders");
            }
            user.exec(&mut server.connection()).expect("a user");
            let url = format!("redis://worker:pw@127.0.0.1:{}/", proxy.port());
            let settings = settings().lease(ms(1500)).reply_time(ms(900));
            let one = settings.single(url).expect("locks");
            let lock = one.lock("k").owner("me");
            let lock = if at_most {
                lock.at_most(ms(2500))
            } else {
                lock
            };
            let first = lock.acquire().await.expect("a lock");
            proxy.swallow();
            let two = locks(&server);
            let second = two.lock("k").owner("me").acquire().await.expect("a lock");
            assert_eq!(first.lost().await, Loss::Expired);
            proxy.speak();
            assert!(matches!(first.release().await, Err(Error::Lost(_))));
            // What is still on its way is not later than this.
            tokio::time::sleep(ms(2500)).await;
            assert!(!is_free(&server, "k"), "{may_look} {at_most}");
            second.check().await.expect("it is held");
        }
    }
}

/// The end of what is kept so long at most is no end of what others keep by then.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_by_the_clock_leaves_what_others_keep() {
    let server = Server::start();
    let (one, two) = (locks(&server), locks(&server));
    let lock = one.lock("k").owner("me").lease(ms(1500));
    let first = lock.at_most(ms(1200)).acquire().await.expect("a lock");
    let renewed = || calls(&server, "lock.renew") == 1;
    eventually(renewed, "the last lease, kept by nobody");
    let second = two.lock("k").owner("me").acquire().await.expect("a lock");
    assert_eq!(first.token(), second.token());
    assert_eq!(first.lost().await, Loss::Expired);
    // What is still on its way is not later than this.
    tokio::time::sleep(ms(1000)).await;
    assert!(!is_free(&server, "k"));
    second.check().await.expect("it is held");
}

/// A grant of a short wait goes to the keeper a moment later. Others may have asked for it in between.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_wait_got_is_not_taken_back() {
    let server = Server::start();
    for checks in [false, true] {
        let (one, two) = (locks(&server), locks(&server));
        let warm = two.lock("warm").acquire().await.expect("a lock");
        let holder = two.lock("k").acquire().await.expect("a lock");
        let lock = one.lock("k").owner("me");
        let waiting = tokio::spawn(async move { lock.acquire().await });
        eventually(|| waiters(&server, "k").len() == 1, "a waiter");
        let renewals = calls(&server, "lock.renew");
        holder.release().await.expect("a release");
        let first = waiting.await.expect("a task").expect("a lock");
        let second = two.lock("k").owner("me").acquire().await.expect("a lock");
        assert_eq!(calls(&server, "lock.renew"), renewals, "not yet");
        if checks {
            let told = first.check().await;
            assert!(matches!(told, Err(Error::Lost(_))), "{told:?}");
        }
        let told = tokio::time::timeout(ms(5000), first.lost()).await;
        assert_eq!(told, Ok(Loss::KeptElsewhere));
        second.check().await.expect("it is held");
        second.release().await.expect("a release");
        drop(warm);
    }
}

/// A release that comes while the keeper is told of its end takes nothing from whoever has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_before_the_loss_is_known_takes_nothing() {
    let server = Server::start();
    for _ in 0..200 {
        let (one, two) = (locks(&server), locks(&server));
        let first = one.lock("k").owner("me").acquire().await.expect("a lock");
        let second = two.lock("k").owner("me").acquire().await.expect("a lock");
        let released = first.release().await;
        assert!(!is_free(&server, "k"), "{released:?}");
        assert!(matches!(released, Err(Error::Lost(_))), "{released:?}");
        second.check().await.expect("it is held");
        second.release().await.expect("a release");
    }
}

/// Nor does a change of the grant.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_before_the_loss_is_known_changes_nothing() {
    let server = Server::start();
    for round in 0..300 {
        let (one, two) = (locks(&server), locks(&server));
        let first = one.lock("k").owner("me").acquire().await.expect("a lock");
        let second = two.lock("k").owner("me").acquire().await.expect("a lock");
        let keeper = kept_by(&server, "k");
        let changed = match round % 3 {
            0 => first.detach().await.map(|_| ()),
            1 => first.downgrade().await,
            _ => first.extend(ms(1000)).await,
        };
        assert!(matches!(changed, Err(Error::Lost(_))), "{changed:?}");
        assert_eq!(kept_by(&server, "k"), keeper);
        assert_eq!(info(&server, "k").lease_ms, 60_000);
        let reader = two.shared("k").try_acquire().await;
        assert!(matches!(reader, Err(Error::Busy)), "{reader:?}");
        second.check().await.expect("it is held");
        second.release().await.expect("a release");
    }
}

/// Gets it by a wait.
async fn waited(server: &Server, lock: &Lock) -> Guard {
    let mut holder = server.connection();
    cmd!(holder, "LOCK.ACQUIRE", "k", "holder", "EX", 60).grant();
    let lock = lock.clone();
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually(|| waiters(server, "k").len() == 1, "a waiter");
    cmd!(holder, "LOCK.RELEASE", "k", "holder").int();
    waiting.await.expect("a task").expect("a lock")
}

/// Of what a wait has brought no connection tells: the server has kept it nowhere.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_wait_got_is_neither_changed_nor_released_for_another() {
    let server = Server::start();
    for round in 0..4 {
        let (one, two) = (locks(&server), locks(&server));
        let first = waited(&server, &one.lock("k").owner("me")).await;
        let second = two.lock("k").owner("me").acquire().await.expect("a lock");
        let keeper = kept_by(&server, "k");
        let told = match round {
            0 => first.detach().await.map(|_| ()),
            1 => first.downgrade().await,
            2 => first.extend(ms(1000)).await,
            _ => first.release().await,
        };
        assert!(matches!(told, Err(Error::Lost(_))), "{told:?}");
        assert_eq!(kept_by(&server, "k"), keeper);
        assert_eq!(info(&server, "k").lease_ms, 60_000);
        let reader = two.shared("k").try_acquire().await;
        assert!(matches!(reader, Err(Error::Busy)), "{reader:?}");
        second.release().await.expect("a release");
    }
}

/// An answer to a wait that comes late takes it from nobody who has asked later.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_grant_is_not_taken_from_whoever_asked_later() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (one, two) = (locks_at(proxy.port(), settings()), locks(&server));
    for is_called_off in [false, true] {
        cmd!(server.connection(), "LOCK.ACQUIRE", "k", "holder", "EX", 60).grant();
        proxy.inject(Fault::Delay(900), "BLOCK", 1);
        let lock = one.lock("k").owner("me").lease(ms(1000));
        let waiting = tokio::spawn(async move { lock.acquire().await });
        eventually(|| waiters(&server, "k").len() == 1, "a waiter");
        cmd!(server.connection(), "LOCK.RELEASE", "k", "holder").int();
        let second = two.lock("k").owner("me").acquire().await.expect("a lock");
        let keeper = kept_by(&server, "k");
        if is_called_off {
            waiting.abort();
            one.close().await;
        } else {
            let told = waiting.await.expect("a task");
            assert!(matches!(told, Err(Error::Lost(_))), "{told:?}");
        }
        assert_eq!(kept_by(&server, "k"), keeper);
        second.check().await.expect("it is held");
        second.release().await.expect("a release");
    }
}

/// At its end the keeping ends, and with it the connection tells no more who has it.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_at_most_takes_nothing_from_another() {
    let server = Server::start();
    let (one, two) = (locks(&server), locks(&server));
    let lock = one.lock("k").owner("me").lease(ms(2000)).at_most(ms(3000));
    let first = lock.acquire().await.expect("a lock");
    eventually(|| kept_by(&server, "k") == 0, "the end of the keeping");
    let second = two.lock("k").owner("me").acquire().await.expect("a lock");
    let released = first.release().await;
    assert!(matches!(released, Err(Error::Lost(_))), "{released:?}");
    second.check().await.expect("it is held");
}

/// Somebody else may have it by the time of a second one.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_by_force_is_sent_once() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (one, two) = (locks_at(proxy.port(), settings()), locks(&server));
    let first = two.lock("k").acquire().await.expect("a lock");
    let next = two.lock("k");
    let waiting = tokio::spawn(async move { next.acquire().await });
    eventually(|| waiters(&server, "k").len() == 1, "a waiter");
    proxy.lose_reply_to("DEL");
    let forced = one.force_unlock("k").await;
    assert!(matches!(forced, Err(Error::Unavailable(_))), "{forced:?}");
    let second = waiting.await.expect("a task").expect("a lock");
    assert_eq!(first.lost().await, Loss::NotOwner);
    second.check().await.expect("it is held");
    assert_eq!(info(&server, "k").owner, second.owner().as_bytes());
    assert!(one.force_unlock("k").await.expect("an answer"));
}

/// Nobody has kept here what the waits before got, nor told who keeps it now.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_called_off_between_two_waits_takes_nothing() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (one, two) = (locks_at(proxy.port(), settings()), locks(&server));
    cmd!(server.connection(), "LOCK.ACQUIRE", "k", "holder", "EX", 60).grant();
    proxy.inject(Fault::Cut, "BLOCK", 1000);
    let lock = one.lock("k").owner("me");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually(|| waiters(&server, "k").len() == 1, "a waiter");
    cmd!(server.connection(), "LOCK.RELEASE", "k", "holder").int();
    let second = two.lock("k").owner("me").acquire().await.expect("a lock");
    let keeper = kept_by(&server, "k");
    // From then on the pauses are of a fifth of a second and more.
    eventually(|| proxy.lost() >= 5, "some waits");
    waiting.abort();
    one.close().await;
    assert_eq!(kept_by(&server, "k"), keeper);
    second.check().await.expect("it is held");
}

/// Once the server has been asked to keep it no more, the connection that kept it tells nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_of_the_keeping_without_an_answer_takes_nothing() {
    for is_detached in [false, true] {
        let server = Server::start();
        let proxy = Proxy::start(server.port());
        let (one, two) = (locks_at(proxy.port(), settings()), locks(&server));
        let lock = one.lock("k").owner("me");
        let lock = if is_detached {
            lock
        } else {
            lock.lease(ms(2000)).at_most(ms(3000))
        };
        let first = lock.acquire().await.expect("a lock");
        proxy.inject(Fault::Delay(700), "LOCK.RENEW", 1);
        let (ending, kept) = if is_detached {
            (Some(tokio::spawn(first.detach())), None)
        } else {
            (None, Some(first))
        };
        eventually(|| kept_by(&server, "k") == 0, "the end of the keeping");
        let second = two.lock("k").owner("me").acquire().await.expect("a lock");
        let keeper = kept_by(&server, "k");
        if let Some(first) = kept {
            let released = first.release().await;
            assert!(matches!(released, Err(Error::Lost(_))), "{released:?}");
        }
        if let Some(ending) = ending {
            ending.abort();
            one.close().await;
        }
        assert_eq!(kept_by(&server, "k"), keeper);
        second.check().await.expect("it is held");
    }
}

/// What came late, and is another's by then, is none of those that are being released here.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_call_after_a_late_grant_gets_the_same() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (one, two) = (locks_at(proxy.port(), settings()), locks(&server));
    cmd!(server.connection(), "LOCK.ACQUIRE", "k", "holder", "EX", 60).grant();
    proxy.inject(Fault::Delay(900), "BLOCK", 1);
    let lock = one.lock("k").owner("me").lease(ms(1000));
    let again = lock.clone();
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually(|| waiters(&server, "k").len() == 1, "a waiter");
    let next = tokio::spawn(async move { again.acquire().await });
    cmd!(server.connection(), "LOCK.RELEASE", "k", "holder").int();
    let second = two.lock("k").owner("me").acquire().await.expect("a lock");
    let told = waiting.await.expect("a task");
    assert!(matches!(told, Err(Error::Lost(_))), "{told:?}");
    let next = next.await.expect("a task").expect("a lock");
    assert_eq!(next.token(), second.token());
}

/// It may have been released before, and is given back: not from whoever has asked for it since.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_back_at_once_is_not_taken_from_another() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (one, two) = (locks_at(proxy.port(), settings()), locks(&server));
    let lock = one.lock("k").owner("me");
    let first = lock.acquire().await.expect("a lock");
    proxy.inject(Fault::ResetRequest, "LOCK.RELEASE", 10_000);
    let told = first.release().await;
    assert!(matches!(told, Err(Error::Unavailable(_))), "{told:?}");
    let before = proxy.pending();
    let next = tokio::spawn(async move { lock.try_acquire().await.map(|it| it.token()) });
    eventually(|| proxy.pending() < before, "a release of what it got");
    let second = two.lock("k").owner("me").acquire().await.expect("a lock");
    let keeper = kept_by(&server, "k");
    proxy.inject(Fault::Cut, "NOTHING", 1);
    let told = next.await.expect("a task");
    assert!(matches!(told, Err(Error::Lost(_))), "{told:?}");
    assert_eq!(kept_by(&server, "k"), keeper);
    second.check().await.expect("it is held");
}
