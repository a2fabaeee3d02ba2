//! The recorder of `docs/operations/lock-history.sh`.

use std::process::{Command, Stdio};
use testbed::module::root;
use testbed::{Expect, Server, Talk, cmd, eventually, run};

/// The owners in a history, newest first. An empty one: nobody held the lock.
fn owners(c: &mut impl Talk, key: &str, until: &str) -> Vec<String> {
    let entries = cmd!(*c, "XREVRANGE", format!("history:{{{key}}}"), until, "-");
    let entries = entries.items().into_iter();
    let fields = entries.map(|entry| entry.items()[1].clone().items());
    fields.map(|fields| fields[3].clone().text()).collect()
}

#[test]
fn who_held_a_lock_is_found_later() {
    let (server, mut c) = Server::builder()
        .config("notify-keyspace-events", "Edgxe")
        .started();
    for rule in testbed::users::rules("recorder") {
        run(&mut c, rule).okay();
    }
    let mut recorder = Command::new(root().join("docs/operations/lock-history.sh"))
        .args(["-p", &server.port().to_string(), "--no-auth-warning"])
        .args(["--user", "recorder", "--pass", "secret"])
        .stdout(Stdio::null())
        .spawn()
        .expect("the recorder starts");
    let patterns = || cmd!(server.connection(), "PUBSUB", "NUMPAT").int();
    eventually(|| patterns() == 4, "the recorder to listen");

    let mut history = server.connection();
    let mut is_recorded = |key: &str, owner: &str| {
        let mut newest = || owners(&mut history, key, "+").first().cloned();
        eventually(|| newest().as_deref() == Some(owner), "an entry");
    };
    // Re-entry and renewal change no holder. A name may have blanks and quotes.
    for key in ["lock:a", "lock: \"b\""] {
        cmd!(c, "LOCK.ACQUIRE", key, "one").grant();
        is_recorded(key, "one");
        cmd!(c, "LOCK.ACQUIRE", key, "one").grant();
        cmd!(c, "LOCK.RENEW", key, "one").grant();
        cmd!(c, "LOCK.RELEASE", key, "one", "ALL").int();
        is_recorded(key, "");
        cmd!(c, "LOCK.ACQUIRE", key, "two").grant();
        is_recorded(key, "two");
        cmd!(c, "LOCK.RENEW", key, "two", "PX", 1).grant(); // its lease ends
        is_recorded(key, "");
        cmd!(c, "LOCK.ACQUIRE", key, "three", "SHARED").grant();
        is_recorded(key, "three");
        cmd!(c, "LOCK.ACQUIRE", key, "four", "SHARED").grant();
        is_recorded(key, "three four");
        cmd!(c, "DEL", key).int();
        is_recorded(key, "");
        let all = owners(&mut c, key, "+");
        assert_eq!(all, ["", "three four", "three", "", "two", "", "one"]);
    }
    // The newest entry before a moment tells who held it then.
    let entries = cmd!(c, "XREVRANGE", "history:{lock:a}", "+", "-").items();
    let id = |entry: usize| entries[entry].clone().items()[0].clone().text();
    assert_eq!(owners(&mut c, "lock:a", &id(4))[0], "two");
    // What is no lock has no history.
    cmd!(c, "SET", "lock:no", 1).okay();
    cmd!(c, "DEL", "lock:no").int();
    cmd!(c, "LOCK.ACQUIRE", "lock:z", "one").grant();
    is_recorded("lock:z", "one");
    assert_eq!(cmd!(c, "KEYS", "history:*").items().len(), 3);
    assert!(cmd!(c, "PTTL", "history:{lock:a}").int() > 0);
    assert_eq!(cmd!(c, "ACL", "LOG").items(), []);
    drop(server);
    recorder.wait().expect("it ends with the server");
}
