//! Users and logins.

use crate::support::{Doctor, each_is_found_and_fixed, healthy};
use testbed::{Expect, run, users};

#[test]
fn users_who_cannot_release_what_they_acquire() {
    each_is_found_and_fixed([
        // Every user who may acquire locks is checked, whether named or not.
        "rights error: ; ACL SETUSER app on >secret ~lock:* +ping +lock.acquire +lock.renew",
        "rights error: ; ACL SETUSER app on >secret ~lock:* +@all -lock.session|poll",
        "rights error --user app: ",
        "rights error --user app: ; ACL SETUSER app off ~lock:* +@all",
        "rights error --user app --lock jobs:1: ; ACL SETUSER app on >secret ~lock:* +@all",
    ]);
}

#[test]
fn the_manuals_user_has_the_needed_rights_and_sees_the_optional_ones() {
    let server = healthy().start();
    let mut c = server.connection();
    for rule in users::rules("application") {
        run(&mut c, rule).okay();
    }
    let doctor = Doctor::of(&server).with(&["--user", "application"]);
    let report = doctor.looks();
    assert!(report.bad("rights").is_empty(), "{:#}", report.json);
    let said = report.said("rights").says("DEL").says("WAIT");
    said.run_all(&server);
    let said = doctor.looks().said("rights");
    assert!(!said.seen().contains("DEL"), "{said:?}");
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
