//! How the doctor connects to a server, what it does with few rights, and the users that it judges.

use crate::support::{Doctor, each_is_found_and_fixed, healthy, program};
use testbed::{Expect, cluster, cmd, run, tls, users};

const PAGE: &str = include_str!("../../../../docs/doctor.md");

/// The rule for the doctor's user in the manual.
pub(crate) fn rule() -> &'static str {
    let mut lines = PAGE.lines();
    lines
        .find(|line| line.starts_with("ACL SETUSER doctor "))
        .expect("a rule")
}

#[test]
fn the_user_of_the_manual_sees_everything_and_changes_nothing() {
    let (server, mut c) = healthy().started();
    run(&mut c, "ACL SETUSER default >secret").okay();
    run(&mut c, rule()).okay();
    cmd!(c, "LOCK.ACQUIRE", "lock:a", "me", "PX", 600_000).grant();
    let mut changes = || {
        let info = cmd!(c, "INFO", "persistence").text();
        let mut lines = info.lines();
        let line = lines.find(|line| line.starts_with("rdb_changes_since_last_save:"));
        line.expect("the field").to_owned()
    };
    let before = changes();
    let report = Doctor::by("doctor:secret", &server).looks();
    report.fine();
    assert_eq!(report.servers[0]["held"], 1);
    assert_eq!(changes(), before);
    let refused = cmd!(c, "ACL", "LOG").items();
    assert!(refused.is_empty(), "{refused:?}");
}

/// Each refusal names the rule that would allow the command. In the end no refusal is left.
#[test]
fn a_login_without_rights_learns_which_rights_it_lacks() {
    let (server, mut c) = healthy().started();
    run(&mut c, "ACL SETUSER default >secret").okay();
    run(&mut c, "ACL SETUSER nobody on >secret resetkeys -@all").okay();
    for _ in 0..10 {
        let report = Doctor::by("nobody:secret", &server).looks();
        let unseen = report.unseen();
        if unseen.is_empty() {
            report.fine();
            return;
        }
        assert_eq!(report.exit, 3, "{report:?}");
        for words in unseen.iter().flat_map(|finding| finding.lines("run")) {
            run(&mut c, words).value();
        }
    }
    panic!("rights are asked for again and again");
}

#[test]
fn servers_that_cannot_be_checked_end_with_exit_code_3() {
    let mut server = healthy().start();
    run(&mut server.connection(), "ACL SETUSER default >secret").okay();
    assert_eq!(Doctor::of(&server).looks().exit, 3);
    assert_eq!(Doctor::by(":wrong", &server).looks().exit, 3);
    server.kill9();
    let nobody = Doctor::of(&server).looks();
    assert_eq!(nobody.exit, 3);
    assert!(nobody.error.is_some());
    let nonsense = program(&["--url", "nonsense"].map(str::to_owned));
    assert_eq!(nonsense.status.code(), Some(3));
}

#[test]
fn tls_and_a_cluster_whose_nodes_do_not_use_it() {
    let keeper = healthy().start();
    testbed::needs!(tls::certificates(keeper.dir()));
    let port = testbed::server::Port::free();
    let path = |file: &str| keeper.dir().join(file).display().to_string();
    let server = tls::settings(healthy(), port.number(), keeper.dir())
        .config("cluster-enabled", "yes")
        .config("cluster-announce-ip", "127.0.0.1")
        .config("cluster-require-full-coverage", "no")
        .try_start();
    let Ok(mut server) = server else {
        println!("left out: a server without TLS");
        return;
    };
    cluster::of_one(&server);
    let url = format!("rediss://localhost:{}", port.number());
    let (cert, key, authority) = (path("it.crt"), path("it.key"), path("ca.crt"));
    let bare = Doctor::at(&url);
    let doctor = bare.with(&["--cacert", &authority, "--cert", &cert, "--key", &key]);
    let finding = doctor.comes("tls", "tls-cluster no");
    let (name, value) = finding.lines("conf")[0].split_once(' ').expect("a line");
    server.restart_with(name, value);
    doctor.gone("tls");
    // The certificate has no known authority, so it works only if any certificate is accepted.
    assert_eq!(bare.looks().exit, 3);
    let any = Doctor::at(&format!("{url}/#insecure"));
    let any = any.with(&["--cert", &cert, "--key", &key]);
    assert_eq!(any.looks().servers.len(), 1);
}

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
    let (server, mut c) = healthy().started();
    for rule in users::rules("application") {
        run(&mut c, rule).okay();
    }
    let doctor = Doctor::of(&server).with(&["--user", "application"]);
    let report = doctor.looks();
    assert!(report.bad("rights").is_empty(), "{report:?}");
    let said = report.said("rights").says("DEL").says("WAIT");
    said.run_all(&server);
    let said = doctor.looks().said("rights");
    assert!(!said.seen.contains("DEL"), "{said:?}");
}

#[test]
fn a_server_that_lets_anybody_in() {
    let (server, mut c) = healthy().config("protected-mode", "no").started();
    let finding = Doctor::of(&server).looks().one("open", "warning");
    finding.run_first(&server);
    let by_password = Doctor::by("default:PASSWORD", &server);
    by_password.gone("open");
    let refused = Doctor::of(&server).looks();
    assert_eq!(refused.exit, 3, "a login is asked for");
    run(&mut c, "ACL SETUSER default nopass").okay();
    run(&mut c, finding.lines("run")[1]).okay();
    by_password.gone("open");
}
