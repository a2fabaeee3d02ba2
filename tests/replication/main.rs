//! Replicas hold what their primary holds, take writes from nobody else, and can take over.

mod beside;
mod promotion;
mod read_only;
mod resync;
mod stream;
mod upgrade;

use testbed::state::{assert_same, unix_ms};
use testbed::traffic::Traffic;
use testbed::{Builder, Expect, Server, cmd, effect, eventually, nobody_waits, wait_as, words};

/// A server that looks often who reads its stream, and pings its replicas seldom.
fn primary() -> Builder {
    Server::builder()
        .config("hz", "500")
        .config("repl-ping-replica-period", "3600")
}

/// Demands that a replica, as soon as it has taken all that was written, stores what its primary
/// stores, and has seen the primary's last token.
#[track_caller]
fn assert_in_step(primary: &Server, replica: &Server, what: &str) {
    // Looking at a key whose time has passed deletes it, on the replica too.
    let expected = primary.state();
    primary.wait_for_sync(replica);
    assert_same(&expected, &replica.state(), what);
    assert_eq!(replica.last_token(), primary.last_token(), "{what}: clock");
    let same = || digest(primary) == digest(replica);
    eventually(same, "the digests of all data to be the same");
}

fn digest(server: &Server) -> String {
    cmd!(server.connection(), "DEBUG", "DIGEST").text()
}

/// Makes a server a primary or another one's replica.
#[track_caller]
fn follow(server: &Server, primary: Option<&Server>) {
    let mut c = server.connection();
    match primary {
        Some(primary) => cmd!(c, "REPLICAOF", "127.0.0.1", primary.port()).okay(),
        None => cmd!(c, "REPLICAOF", "NO", "ONE").okay(),
    }
}
