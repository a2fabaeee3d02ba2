//! Holders in processes of their own, which are asked to end or are killed.

use crate::support::{LONG, Watch, info, is_free, locks, locks_at, ms, settings, waiters};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use testbed::{Server, eventually};
use tokio::signal::unix::{SignalKind, signal};

const PORT: &str = "TEST_HOLDER_PORT";
const LEASE: &str = "TEST_HOLDER_LEASE_MS";

/// What a holder does, when this program is started again for it: holds the lock until it is asked
/// to end, and then gives it back.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of the other tests"]
async fn holder() {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let (Some(port), Some(lease)) = (number(PORT), number(LEASE)) else {
        return;
    };
    let mut asked_to_end = signal(SignalKind::terminate()).expect("a signal");
    let port = u16::try_from(port).expect("a port");
    let locks = locks_at(port, settings().lease(ms(lease)));
    let guard = locks.lock("k").acquire().await.expect("a lock");
    tokio::select! {
        loss = guard.lost() => panic!("{loss}"),
        _ = asked_to_end.recv() => locks.close().await,
    }
}

fn start(server: &Server, lease: Duration) -> Child {
    let program = std::env::current_exe().expect("this program");
    Command::new(program)
        .args(["--ignored", "--exact", "processes::holder"])
        .env(PORT, server.port().to_string())
        .env(LEASE, lease.as_millis().to_string())
        .stdout(Stdio::null())
        .spawn()
        .expect("a process")
}

/// A holder that has the lock, and its process.
fn started(server: &Server, lease: Duration) -> Child {
    let process = start(server, lease);
    eventually(|| !is_free(server, "k"), "the holder");
    let owner = info(server, "k").owner;
    let owner = String::from_utf8(owner).expect("text");
    assert!(owner.contains(&format!(":{}:", process.id())), "{owner}");
    process
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_asked_to_end_gives_back_what_it_holds() {
    let server = Server::start();
    let mut process = started(&server, LONG);
    let lock = locks(&server).lock("k");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually(|| waiters(&server, "k").len() == 1, "a waiter");
    let asked = Instant::now();
    let kill = Command::new("kill").arg(process.id().to_string()).status();
    assert!(kill.expect("kill").success());
    drop(waiting.await.expect("a task").expect("a lock"));
    assert!(
        asked.elapsed() < Duration::from_secs(30),
        "long before its lease ends"
    );
    assert!(process.wait().expect("a process").success());
}

#[tokio::test(flavor = "multi_thread")]
async fn when_a_process_is_killed_the_next_goes_on_after_the_lease() {
    let server = Server::start();
    let lease = ms(1500);
    let mut process = started(&server, lease);
    let lock = locks(&server).lock("k");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually(|| waiters(&server, "k").len() == 1, "a waiter");
    // It is renewed for as long as the process lives.
    tokio::time::sleep(lease * 2).await;
    assert!(!waiting.is_finished());
    process.kill().expect("a process");
    process.wait().expect("a process");
    let left = u64::try_from(info(&server, "k").ttl_ms).expect("a lease");
    let killed = Watch::on(&server);
    let guard = waiting.await.expect("a task").expect("a lock");
    let after = killed.own();
    assert!(
        after < ms(left) + ms(1500),
        "{after:?} after the kill, {left} ms were left"
    );
    guard.release().await.expect("a release");
}
