//! A lock on several servers: calls at the same time, and work done once.

use crate::support::{calls, ms, settings};
use redis_lock_client::Error;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use testbed::{Expect, Fault, Proxy, Server, cmd, eventually};

/// A check renews, too: not with the lease of before an extension that is under way.
#[tokio::test(flavor = "multi_thread")]
async fn a_check_beside_an_extension_shortens_nothing() {
    let servers = [(); 3].map(|()| Server::start());
    let proxies = servers.each_ref().map(|server| Proxy::start(server.port()));
    let ports = proxies.each_ref().map(|proxy| ("127.0.0.1", proxy.port()));
    let locks = settings().lease(ms(20_000)).quorum(ports).expect("locks");
    let guard = Arc::new(locks.lock("k").acquire().await.expect("a lock"));
    for proxy in &proxies {
        proxy.inject(Fault::Delay(200), "LOCK.RENEW", 1);
    }
    let before = calls(&servers[0], "lock.renew");
    let extending = tokio::spawn({
        let guard = Arc::clone(&guard);
        async move { guard.extend(ms(90_000)).await }
    });
    eventually(
        || calls(&servers[0], "lock.renew") > before,
        "the extension to be under way",
    );
    guard.check().await.expect("it is held");
    extending.await.expect("a task").expect("a longer lease");
    assert!(guard.remaining() > ms(60_000));
    for server in &servers {
        assert!(cmd!(server.connection(), "PTTL", "k").int() > 60_000);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_is_done_once_for_all_who_want_it() {
    let servers = [(); 3].map(|()| Server::start());
    let ports = servers
        .each_ref()
        .map(|server| ("127.0.0.1", server.port()));
    let locks = settings().quorum(ports).expect("locks");
    let (result, done) = (Arc::new(Mutex::new(None)), Arc::new(AtomicUsize::new(0)));
    let all = (0..5).map(|_| {
        let (lock, result, done) = (locks.lock("k"), Arc::clone(&result), Arc::clone(&done));
        tokio::spawn(async move {
            let find = || std::future::ready(Ok(*result.lock().expect("no panic")));
            let work = async |_guard| {
                done.fetch_add(1, SeqCst);
                tokio::time::sleep(ms(100)).await;
                *result.lock().expect("no panic") = Some(42);
                Ok::<_, Error>(42)
            };
            lock.once(find, work).await
        })
    });
    for one in all.collect::<Vec<_>>() {
        assert_eq!(one.await.expect("a task").expect("the result"), 42);
    }
    assert_eq!(done.load(SeqCst), 1);
}
