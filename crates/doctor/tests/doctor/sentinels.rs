//! Servers that a Sentinel watches.

use crate::support::{comes, doctor, gone_by};
use std::time::Duration;
use testbed::{Expect, Sentinels, cmd, run};

#[test]
fn sentinels_that_are_hasty_or_too_few() {
    let mut all = Sentinels::builder(1, 3)
        .down_after(Duration::from_millis(1500))
        .start_with(|settings| {
            settings
                .config("appendonly", "yes")
                .config("appendfsync", "always")
                .config("tcp-keepalive", "10")
                .config("lock.max-waiters-total", "5000")
        });
    let url = format!("redis://127.0.0.1:{}", all.sentinels()[0].port());
    let words = ["--url", &url];
    let report = doctor(&words);
    assert_eq!(report.json["servers"].as_array().map(Vec::len), Some(2));
    let mut c = all.sentinels()[0].connection();

    // The lead is below what a failover takes; then the Sentinel has more patience.
    let lead = report.one("token-lead", "warning");
    for server in all.servers() {
        lead.run_first(&mut server.connection());
    }
    gone_by(&words, "token-lead");
    report.one("sentinel", "warning").run_first(&mut c);
    gone_by(&words, "sentinel");

    run(&mut c, "SENTINEL SET lock down-after-milliseconds 60000").okay();
    let finding = comes(&words, "lease");
    for server in all.servers() {
        finding.run_first(&mut server.connection());
    }
    gone_by(&words, "lease");
    run(&mut c, "SENTINEL SET lock down-after-milliseconds 5000").okay();

    for number in [1, 2] {
        all.sentinel_mut(number).kill9();
    }
    let finding = comes(&words, "sentinel");
    assert!(finding.seen().contains("NOQUORUM"), "{finding:?}");
    for number in [1, 2] {
        all.sentinel_mut(number).restart();
    }
    gone_by(&words, "sentinel");
    assert_eq!(doctor(&["--url", &url, "--name", "other"]).exit, 3);
}

/// The servers have users, the Sentinels have none.
#[test]
fn servers_behind_a_sentinel_have_a_login_of_their_own() {
    let all = Sentinels::start(0, 1);
    let server = all.server(0);
    cmd!(
        server.connection(),
        "ACL",
        "SETUSER",
        "other",
        "on",
        ">secret",
        "~*",
        "&*",
        "+@all"
    )
    .okay();
    cmd!(server.connection(), "ACL", "SETUSER", "default", ">another").okay();
    let url = format!("redis://127.0.0.1:{}", all.sentinels()[0].port());
    assert_eq!(doctor(&["--url", &url]).exit, 3);
    let report = doctor(&["--url", &url, "--servers-login", "other:secret"]);
    assert!(report.json["error"].is_null(), "{:#}", report.json);
    assert_eq!(report.json["servers"][0]["role"], "primary");
}
