//! Users, and who is let in.

use crate::support::{Doctor, healthy};
use testbed::{Expect, Server, cmd, run, users};

fn by_name(server: &Server, user: &str) -> Doctor {
    Doctor::of(server).with(&["--user", user])
}

#[test]
fn a_user_who_lacks_a_command_or_the_name() {
    let server = healthy().start();
    let mut c = server.connection();
    let rule = "ACL SETUSER app on >secret ~lock:* +ping +lock.acquire +lock.renew";
    run(&mut c, rule).okay();
    let app = by_name(&server, "app");
    let finding = app.one("rights", "error").says("LOCK.RELEASE");
    assert_eq!(finding.lines("run"), ["ACL SETUSER app +lock.release"]);
    finding.run_all(&server);
    app.gone("rights");

    let mut said = app.looks().said("rights");
    for command in ["LOCK.FENCE", "LOCK.HOLDERS", "DEL", "WAIT"] {
        said = said.says(command);
    }
    said.run_all(&server);
    let said = app.looks().said("rights");
    assert!(!said.seen().contains("DEL"), "{said:?}");

    let jobs = app.with(&["--lock", "jobs:1"]);
    let finding = jobs.one("rights", "error").says("jobs:1");
    finding.run_first(&server);
    jobs.gone("rights");
}

#[test]
fn the_manuals_application_may_do_what_it_takes_until_it_may_not_poll() {
    let server = healthy().start();
    let mut c = server.connection();
    for rule in users::rules("application") {
        run(&mut c, rule).okay();
    }
    let report = by_name(&server, "application").looks();
    assert!(report.bad("rights").is_empty(), "{:#}", report.json);
    run(&mut c, "ACL SETUSER application -lock.session|poll").okay();
    let doctor = Doctor::of(&server);
    let finding = doctor.one("rights", "error").says("LOCK.SESSION|POLL");
    finding.run_all(&server);
    assert!(doctor.looks().bad("rights").is_empty());
}

#[test]
fn a_user_who_is_off_or_not_there() {
    let server = healthy().start();
    let app = by_name(&server, "app");
    for part in ["there is no user app", "the user app is off"] {
        app.one("rights", "error").says(part).run_all(&server);
        assert!(app.looks().bad("rights").is_empty());
        cmd!(server.connection(), "ACL", "SETUSER", "app", "off").okay();
    }
}

#[test]
fn a_server_that_lets_anybody_in() {
    let server = healthy().config("protected-mode", "no").start();
    let mut c = server.connection();
    let finding = Doctor::of(&server).one("open", "warning");
    finding.run_first(&server);
    let by_password = Doctor::by("default:PASSWORD", &server);
    by_password.gone("open");
    let refused = Doctor::of(&server).looks();
    assert_eq!(refused.exit, 3, "a login is asked for");
    run(&mut c, "ACL SETUSER default nopass").okay();
    run(&mut c, finding.lines("run")[1]).okay();
    by_password.gone("open");
}
