//! How it comes to a server, and what it does with few rights.

use crate::support::{comes, doctor, gone_by, healthy, look, program};
use std::fs;
use testbed::{Expect, cmd, run, tls};

const PAGE: &str = include_str!("../../../../docs/doctor.md");

/// The rule by which the manual makes the doctor's user.
pub(crate) fn rule() -> &'static str {
    let mut lines = PAGE.lines();
    lines
        .find(|line| line.starts_with("ACL SETUSER doctor "))
        .expect("a rule")
}

#[test]
fn the_user_of_the_manual_sees_everything_and_changes_nothing() {
    let server = healthy().start();
    let mut c = server.connection();
    run(&mut c, "ACL SETUSER default >secret").okay();
    run(&mut c, rule()).okay();
    cmd!(c, "LOCK.ACQUIRE", "lock:a", "me", "PX", 600_000).grant();
    let before = info(&mut c, "persistence", "rdb_changes_since_last_save");
    let url = format!("redis://doctor:secret@127.0.0.1:{}", server.port());
    let report = doctor(&["--url", &url]);
    report.fine();
    assert_eq!(server_held(&report.json), 1);
    let after = info(&mut c, "persistence", "rdb_changes_since_last_save");
    assert_eq!(before, after);
    assert!(
        cmd!(c, "ACL", "LOG").items().is_empty(),
        "nothing was refused"
    );
}

fn server_held(report: &serde_json::Value) -> i64 {
    report["servers"][0]["held"].as_i64().expect("a number")
}

fn info(c: &mut redis::Connection, section: &str, field: &str) -> String {
    let text = cmd!(*c, "INFO", section).text();
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(name, _)| *name == field);
    found.expect("the field").1.to_owned()
}

/// Each refusal names the rule that would lift it, until nothing is left.
#[test]
fn a_login_with_no_rights_is_told_which_it_lacks() {
    let server = healthy().start();
    let mut c = server.connection();
    run(&mut c, "ACL SETUSER default >secret").okay();
    run(&mut c, "ACL SETUSER nobody on >secret resetkeys -@all").okay();
    let url = format!("redis://nobody:secret@127.0.0.1:{}", server.port());
    for _ in 0..10 {
        let report = doctor(&["--url", &url]);
        let unseen = report.unseen();
        if unseen.is_empty() {
            report.fine();
            return;
        }
        assert_eq!(report.exit, 3, "{:#}", report.json);
        for finding in &unseen {
            finding.run_all(&mut c);
        }
    }
    panic!("rights are asked for again and again");
}

#[test]
fn what_cannot_be_looked_at_ends_with_3() {
    let mut server = healthy().start();
    run(&mut server.connection(), "ACL SETUSER default >secret").okay();
    assert_eq!(look(&server).exit, 3);
    let url = format!("redis://:wrong@127.0.0.1:{}", server.port());
    assert_eq!(doctor(&["--url", &url]).exit, 3);
    server.kill9();
    let nobody = look(&server);
    assert_eq!(nobody.exit, 3);
    assert!(nobody.json["error"].is_string());
    assert_eq!(program(&["--url", "nonsense"]).status.code(), Some(3));
    let help = program(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    let help = String::from_utf8(help.stdout).expect("text");
    for option in ["--url", "--json", "--user", "--cacert", "--servers-login"] {
        assert!(help.contains(option), "{help}");
    }
}

#[test]
fn by_tls_and_a_cluster_whose_nodes_talk_in_plain() {
    let keeper = healthy().start();
    let Some(port) = tls::certificates(keeper.dir()).then(testbed::server::Port::free) else {
        println!("left out: no openssl");
        return;
    };
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
    let mut c = server.connection();
    run(&mut c, "CLUSTER ADDSLOTSRANGE 0 16383").okay();
    testbed::eventually(
        || {
            cmd!(c, "CLUSTER", "INFO")
                .text()
                .contains("cluster_state:ok")
        },
        "the cluster",
    );
    // In the program itself it is main that does so.
    redis_lock_tool::prepare_tls();
    let url = format!("rediss://localhost:{}", port.number());
    let (cert, key, authority) = (path("it.crt"), path("it.key"), path("ca.crt"));
    let words = [
        "--url", &url, "--cacert", &authority, "--cert", &cert, "--key", &key,
    ];
    let finding = comes(&words, "tls");
    assert!(finding.seen().contains("tls-cluster no"), "{finding:?}");
    let astray = finding.seen().contains("ports without TLS");
    assert_eq!(
        told_port(&url, &authority) == server.port(),
        astray,
        "{finding:?}"
    );
    let (name, value) = finding.lines("conf")[0].split_once(' ').expect("a line");
    server
        .reconfigure(|settings| settings.config(name, value))
        .restart();
    gone_by(&words, "tls");
    assert_eq!(told_port(&url, &authority), port.number());
    // A certificate that nobody vouches for.
    assert_eq!(doctor(&["--url", &url]).exit, 3);
}

/// The port to which the cluster sends a client that comes by TLS.
fn told_port(url: &str, authority: &str) -> u16 {
    let certificates = redis::TlsCertificates {
        client_tls: None,
        root_cert: fs::read(authority).ok(),
    };
    let client = redis::Client::build_with_tls(url, certificates).expect("an address");
    let mut c = client.get_connection().expect("a connection");
    let slots = cmd!(c, "CLUSTER", "SLOTS").items();
    let range = slots.into_iter().next().expect("slots").items();
    let node = range[2].clone().items();
    u16::try_from(node[1].clone().int()).expect("a port")
}
