//! The end of the client. The trial shows that close gives back everything, and that nothing works afterwards.

use crate::support::*;
use redis_lock_client::ErrorKind::Unavailable;
use std::time::Instant;
use testbed::Server;

/// A server that hangs does not hold up close for long: it takes two reply times.
#[tokio::test(flavor = "multi_thread")]
async fn close_is_limited() {
    let server = Server::start();
    let locks = locks_at(server.port(), settings().reply_time(ms(500)));
    let _guard = locks.lock("k").acquire().await.expect("a lock");
    server.signal("STOP");
    let begun = Instant::now();
    is(locks.close().await, Unavailable);
    assert!(begun.elapsed() < ms(5000), "{:?}", begun.elapsed());
    server.signal("CONT");
}

/// A session that has ended is not closed over and over: what is outside of it is released one by one.
#[tokio::test(flavor = "multi_thread")]
async fn close_after_the_end_of_the_session() {
    let server = Server::start();
    let locks = locks(&server);
    let _guard = locks.lock("k").acquire().await.expect("a lock");
    let _fixed = locks.lock("f").fixed(LONG).acquire().await.expect("a lock");
    kill_sessions(&server);
    locks.close().await.expect("all released");
    assert!(is_free(&server, "k") && is_free(&server, "f"));
    assert!(sessions(&server).is_empty());
}
