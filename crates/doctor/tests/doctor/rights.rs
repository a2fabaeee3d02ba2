//! Users, and who is let in.

use crate::support::{Report, doctor, gone_by, healthy, look};
use testbed::{Expect, Server, Talk, cmd, run, users};

fn look_at_user(server: &Server, user: &str) -> Report {
    doctor(&["--port", &server.port().to_string(), "--user", user])
}

#[test]
fn a_user_who_lacks_a_command_or_the_name() {
    let server = healthy().start();
    let mut c = server.connection();
    let port = server.port().to_string();
    // Every user who takes locks is checked, named or not.
    run(
        &mut c,
        "ACL SETUSER app on >secret ~lock:* +ping +lock.acquire +lock.renew",
    )
    .okay();
    for report in [look(&server), look_at_user(&server, "app")] {
        let finding = report.one("rights", "error");
        assert!(finding.seen().contains("LOCK.RELEASE"), "{finding:?}");
        assert_eq!(finding.lines("run"), ["ACL SETUSER app +lock.release"]);
    }
    let finding = look(&server).one("rights", "error");
    finding.run_all(&mut c);
    gone_by(&["--port", &port, "--user", "app"], "rights");

    let said = &look_at_user(&server, "app").of("rights", |_| true)[0];
    for command in ["LOCK.FENCE", "LOCK.HOLDERS", "DEL", "WAIT"] {
        assert!(said.seen().contains(command), "{said:?}");
    }
    said.run_all(&mut c);
    let said = &look_at_user(&server, "app").of("rights", |_| true)[0];
    assert!(!said.seen().contains("DEL"), "{said:?}");

    let words = ["--port", &port, "--user", "app", "--lock", "jobs:1"];
    let finding = doctor(&words).one("rights", "error");
    assert!(finding.seen().contains("jobs:1"), "{finding:?}");
    finding.run_first(&mut c);
    gone_by(&words, "rights");
}

#[test]
fn a_user_who_may_open_sessions_and_not_poll_them() {
    let server = healthy().start();
    let mut c = server.connection();
    for rule in users::rules("application") {
        run(&mut c, rule).okay();
    }
    run(&mut c, "ACL SETUSER application -lock.session|poll").okay();
    let finding = look(&server).one("rights", "error");
    assert!(finding.seen().contains("LOCK.SESSION|POLL"), "{finding:?}");
    finding.run_all(&mut c);
    assert!(look(&server).bad("rights").is_empty());
}

#[test]
fn a_user_who_is_off_or_not_there() {
    let server = healthy().start();
    let mut c = server.connection();
    let finding = look_at_user(&server, "app").one("rights", "error");
    finding.run_all(&mut c);
    assert_eq!(look_at_user(&server, "app").bad("rights").len(), 0);
    cmd!(c, "ACL", "SETUSER", "app", "off").okay();
    let finding = look_at_user(&server, "app").one("rights", "error");
    finding.run_all(&mut c);
    assert_eq!(look_at_user(&server, "app").bad("rights").len(), 0);
}

#[test]
fn the_manuals_application_may_do_what_it_takes() {
    let server = healthy().start();
    let mut c = server.connection();
    for rule in users::rules("application") {
        run(&mut c, rule).okay();
    }
    let report = look_at_user(&server, "application");
    assert!(report.bad("rights").is_empty(), "{:#}", report.json);
}

#[test]
fn a_server_that_lets_anybody_in() {
    let server = healthy().config("protected-mode", "no").start();
    let mut c = server.connection();
    let finding = look(&server).one("open", "warning");
    finding.run_first(&mut c);
    let url = format!("redis://default:PASSWORD@127.0.0.1:{}", server.port());
    gone_by(&["--url", &url], "open");
    assert_eq!(look(&server).exit, 3, "a login is asked for");
    run(&mut c, "ACL SETUSER default nopass").okay();
    let lines = finding.lines("run");
    c.send(&testbed::line(lines[1])).okay();
    gone_by(&["--url", &url], "open");
}
