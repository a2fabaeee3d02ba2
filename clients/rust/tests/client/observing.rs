//! What an observer is told.

use crate::five::Five;
use crate::support::{LONG, end_connections, locks_at, ms, settings, waiters};
use redis_lock_client::{Error, Locks, Loss, Observer};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testbed::{Expect, Sentinels, Server, cmd, eventually, sentinels};

/// Keeps all that it is told: what, of whom, how, and with which time.
#[derive(Default)]
struct Seen(Mutex<Vec<(&'static str, String, String, Duration)>>);

impl Seen {
    fn keep(&self, what: &'static str, of: &str, how: String, time: Duration) {
        let mut all = self.0.lock().expect("what was seen");
        all.push((what, of.to_owned(), how, time));
    }

    /// What and how, in order.
    fn all(&self) -> Vec<String> {
        let all = self.0.lock().expect("what was seen");
        let text = |(what, of, how, _): &(_, _, _, _)| format!("{what} {of} {how}");
        all.iter().map(text).collect()
    }

    /// Comes to be all.
    fn comes_to(&self, wanted: &[&str]) {
        let is_all = || self.all().len() >= wanted.len();
        eventually(is_all, "all to be told");
        assert_eq!(self.all(), wanted);
    }

    /// The time of the last one of these.
    fn time(&self, what: &str) -> Duration {
        let all = self.0.lock().expect("what was seen");
        let last = all.iter().rfind(|(it, ..)| *it == what);
        last.expect("it was told").3
    }
}

fn text(key: &[u8]) -> &str {
    std::str::from_utf8(key).expect("a name")
}

fn how(error: Option<&Error>) -> String {
    match error {
        None => "-".to_owned(),
        Some(Error::Unavailable(_)) => "unavailable".to_owned(),
        Some(Error::Misuse(_)) => "misuse".to_owned(),
        Some(error) => format!("{error:?}"),
    }
}

impl Observer for Seen {
    fn acquired(&self, key: &[u8], took: Duration) {
        self.keep("acquired", text(key), "-".to_owned(), took);
    }

    fn refused(&self, key: &[u8], took: Duration, error: Option<&Error>) {
        self.keep("refused", text(key), how(error), took);
    }

    fn released(&self, key: &[u8], held: Duration, error: Option<&Error>) {
        self.keep("released", text(key), how(error), held);
    }

    fn lost(&self, key: &[u8], loss: Loss) {
        self.keep("lost", text(key), format!("{loss:?}"), Duration::ZERO);
    }

    fn keeper_down(&self, server: &str, why: &str) {
        assert!(!why.is_empty());
        self.keep("down", server, "-".to_owned(), Duration::ZERO);
    }

    fn keeper_up(&self, server: &str) {
        self.keep("up", server, "-".to_owned(), Duration::ZERO);
    }
}

fn seen(server: &Server) -> (Locks, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let settings = settings().observer(Arc::clone(&seen));
    (locks_at(server.port(), settings), seen)
}

#[tokio::test(flavor = "multi_thread")]
async fn acquires_and_the_release_of_the_last_hold() {
    let server = Server::start();
    let (locks, seen) = seen(&server);
    let task = locks.task();
    let outer = task.lock("k").acquire().await.expect("a lock");
    assert!(seen.time("acquired") > Duration::ZERO && seen.time("acquired") < ms(1000));
    let inner = task.lock("k").acquire().await.expect("a hold");
    tokio::time::sleep(ms(300)).await;
    outer.release().await.expect("a release");
    seen.comes_to(&["acquired k -"; 2]);
    drop(inner);
    seen.comes_to(&["acquired k -", "acquired k -", "released k -"]);
    assert!(seen.time("released") >= ms(300) && seen.time("released") < ms(3000));
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_with_their_time_and_error() {
    let mut server = Server::start();
    let (locks, seen) = seen(&server);
    cmd!(server.connection(), "LOCK.ACQUIRE", "k", "other").value();
    let lock = locks.lock("k");
    assert!(lock.try_acquire().await.is_err());
    assert!(lock.clone().wait(ms(300)).acquire().await.is_err());
    assert!(seen.time("refused") >= ms(300) && seen.time("refused") < ms(3000));
    // Called off: dropped, and stopped.
    assert!(
        tokio::time::timeout(ms(200), lock.acquire()).await.is_err(),
        "it waits"
    );
    let stopped = lock.acquire_unless(tokio::time::sleep(ms(200))).await;
    assert!(stopped.expect("no error").is_none());
    assert!(locks.lock("k").owner("*").acquire().await.is_err());
    let mut wanted = vec![
        "refused k Busy",
        "refused k Busy",
        "refused k -",
        "refused k -",
        "refused k misuse",
    ];
    seen.comes_to(&wanted);
    server.kill9();
    let down = format!("down 127.0.0.1:{} -", server.port());
    wanted.push(&down);
    seen.comes_to(&wanted);
    assert!(locks.lock("k").try_acquire().await.is_err());
    locks.close().await;
    assert!(locks.lock("k").try_acquire().await.is_err());
    wanted.extend(["refused k unavailable", "refused k misuse"]);
    seen.comes_to(&wanted);
}

/// A grant of the last moment goes back, and is nobody's loss or release.
#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_is_called_off_is_refused_and_nothing_else() {
    let server = Server::start();
    let (locks, seen) = seen(&server);
    for round in 1..=20 {
        let holder = locks.lock("k").acquire().await.expect("a lock");
        let lock = locks.lock("k");
        let waiting = tokio::spawn(async move { lock.acquire().await });
        eventually(|| waiters(&server, "k").len() == 1, "a waiter");
        let (_, ended) = tokio::join!(holder.release(), async {
            waiting.abort();
            waiting.await
        });
        drop(ended);
        let count = |what: &str| seen.all().iter().filter(|it| it.starts_with(what)).count();
        eventually(
            || {
                count("acquired") + count("refused") == round * 2
                    && count("released") == count("acquired")
            },
            "the outcome of both",
        );
        assert_eq!(count("lost"), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_once_and_its_release_not_at_all() {
    let server = Server::start();
    let (locks, seen) = seen(&server);
    let guard = locks.lock("k").acquire().await.expect("a lock");
    cmd!(server.connection(), "DEL", "k").int();
    guard.lost().await;
    assert!(guard.release().await.is_err());
    let losses = || {
        seen.all()
            .iter()
            .filter(|it| **it == "lost k NotHeld")
            .count()
    };
    eventually(|| losses() == 1, "the loss");
    assert!(!seen.all().iter().any(|it| it.starts_with("released")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_that_the_release_finds() {
    let server = Server::start();
    let (locks, seen) = seen(&server);
    let guard = locks.lock("k").fixed().acquire().await.expect("a lock");
    cmd!(server.connection(), "DEL", "k").int();
    assert!(guard.release().await.is_err());
    seen.comes_to(&["acquired k -", "lost k NotHeld", "released k Lost(NotHeld)"]);
    let guard = locks.lock("k").acquire().await.expect("a lock");
    server.signal("STOP");
    assert!(guard.release().await.is_err());
    assert!(seen.time("released") > ms(1000) && seen.time("released") < ms(5000));
    server.signal("CONT");
    let all = seen.all();
    let last = all.iter().rfind(|it| it.starts_with("released"));
    assert_eq!(last.expect("a release"), "released k unavailable");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_adopted_and_what_was_left() {
    let server = Server::start();
    let (locks, seen) = seen(&server);
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let owner = guard.owner().to_owned();
    let token = guard.detach().await.expect("to leave it");
    seen.comes_to(&["acquired k -"]);
    let guard = locks.adopt("k", owner, token).await.expect("a lock");
    guard.release().await.expect("a release");
    seen.comes_to(&["acquired k -", "released k -"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_releases() {
    let server = Server::start();
    let (locks, told) = seen(&server);
    let guard = locks.lock("k").acquire().await.expect("a lock");
    locks.close().await;
    assert_eq!(guard.lost().await, Loss::Closed);
    drop(guard);
    told.comes_to(&["acquired k -", "released k -"]);
    let (locks, told) = seen(&server);
    let _guard = locks.lock("k").acquire().await.expect("a lock");
    server.signal("STOP");
    locks.close().await;
    server.signal("CONT");
    let released = |it: &String| it == "released k unavailable";
    assert!(told.all().iter().any(released), "{:?}", told.all());
    assert!(!told.all().iter().any(|it| it.starts_with("lost")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_keeper_and_its_return_once() {
    let mut server = Server::start();
    let (locks, seen) = seen(&server);
    let place = format!("127.0.0.1:{}", server.port());
    let (down, up) = (format!("down {place} -"), format!("up {place} -"));
    let guard = locks.lock("k").acquire().await.expect("a lock");
    end_connections(&server);
    seen.comes_to(&["acquired k -", &down, &up]);
    guard.release().await.expect("a release");
    server.kill9(); // with nothing held
    for _ in 0..2 {
        assert!(locks.lock("k").try_acquire().await.is_err());
    }
    server.restart();
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let all = seen.all();
    let keepers = all.iter().filter(|it| it.contains(&place));
    assert_eq!(keepers.collect::<Vec<_>>(), [&down, &up, &down, &up]);
    guard.release().await.expect("a release");
    locks.close().await;
    assert_eq!(seen.all().len(), all.len() + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_from_the_begin() {
    let mut server = Server::start();
    server.kill9();
    let (locks, seen) = seen(&server);
    assert!(locks.lock("k").try_acquire().await.is_err());
    let down = format!("down 127.0.0.1:{} -", server.port());
    seen.comes_to(&[&down, "refused k unavailable"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_primary_has_the_name_that_the_sentinels_know() {
    let sentinels = Sentinels::start(1, 1);
    let seen = Arc::new(Seen::default());
    let addresses = sentinels.sentinels().iter();
    let addresses = addresses.map(|sentinel| ("127.0.0.1", sentinel.port()));
    let settings = settings().observer(Arc::clone(&seen));
    let locks = settings.sentinel(sentinels::NAME, addresses, "redis://-/");
    let locks = locks.expect("a locks");
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let primary = sentinels.server(sentinels.primary());
    end_connections(primary);
    let name = sentinels::NAME;
    seen.comes_to(&[
        "acquired k -",
        &format!("down {name} -"),
        &format!("up {name} -"),
    ]);
    guard.check().await.expect("it is held");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_of_a_quorum() {
    let mut five = Five::start();
    let seen = Arc::new(Seen::default());
    let locks = five.locks_with(settings().observer(Arc::clone(&seen)));
    let guard = five.hold(&locks.lock("k")).await;
    let place = format!("127.0.0.1:{}", five.ports()[0]);
    five.servers[0].kill9();
    guard.check().await.expect("a majority");
    let down = format!("down {place} -");
    eventually(|| seen.all().contains(&down), "one to be down");
    five.servers[0].restart();
    let up = format!("up {place} -");
    eventually(|| seen.all().contains(&up), "it to be back");
    for server in &five.servers {
        cmd!(server.connection(), "DEL", "k").int();
    }
    assert!(guard.release().await.is_err());
    let all = seen.all();
    assert_eq!(all.iter().filter(|it| it.contains("127.0.0.1")).count(), 2);
    assert!(all.ends_with(&[
        "lost k NotHeld".to_owned(),
        "released k Lost(NotHeld)".to_owned()
    ]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_it_hurts_no_lock() {
    struct Panics;
    impl Observer for Panics {
        fn acquired(&self, _: &[u8], _: Duration) {
            panic!("on purpose");
        }
        fn released(&self, _: &[u8], _: Duration, _: Option<&Error>) {
            panic!("on purpose");
        }
        fn lost(&self, _: &[u8], _: Loss) {
            panic!("on purpose");
        }
        fn keeper_down(&self, _: &str, _: &str) {
            panic!("on purpose");
        }
        fn keeper_up(&self, _: &str) {
            panic!("on purpose");
        }
    }
    let server = Server::start();
    let locks = locks_at(server.port(), settings().observer(Panics));
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let other = locks.lock("other").acquire().await.expect("a lock");
    cmd!(server.connection(), "DEL", "k").int();
    assert_eq!(guard.lost().await, Loss::NotHeld);
    other.check().await.expect("it is held");
    other.release().await.expect("a release");
    let next = locks.lock("k").wait(LONG).acquire().await;
    next.expect("a lock").release().await.expect("a release");
}
