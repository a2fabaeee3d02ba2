//! Servers that a Sentinel watches.

use crate::support::{Doctor, Finding, sound};
use std::time::Duration;
use testbed::{Expect, Sentinels, run};

#[test]
fn sentinels_that_are_too_hasty_or_too_few() {
    let mut all = Sentinels::builder(1, 3)
        .down_after(Duration::from_millis(1500))
        .start_with(sound);
    let doctor = Doctor::of(&all.sentinels()[0]);
    let report = doctor.looks();
    assert_eq!(report.servers().len(), 2);
    let mut c = all.sentinels()[0].connection();
    let on_all = |all: &Sentinels, finding: &Finding| {
        for server in all.servers() {
            finding.run_first(server);
        }
    };

    // One fix makes the lead shorter than a failover, the other makes the Sentinel wait longer.
    on_all(&all, &report.one("token-lead", "warning"));
    doctor.gone("token-lead");
    let hasty = report.one("sentinel", "warning");
    hasty.run_first(&all.sentinels()[0]);
    doctor.gone("sentinel");

    run(&mut c, "SENTINEL SET lock down-after-milliseconds 60000").okay();
    on_all(&all, &doctor.comes("lease", ""));
    doctor.gone("lease");
    run(&mut c, "SENTINEL SET lock down-after-milliseconds 5000").okay();

    for number in [1, 2] {
        all.sentinel_mut(number).kill9();
    }
    doctor.comes("sentinel", "NOQUORUM");
    for number in [1, 2] {
        all.sentinel_mut(number).restart();
    }
    doctor.gone("sentinel");
    assert_eq!(doctor.with(&["--name", "other"]).looks().exit, 3);
}

/// The servers have users, the Sentinels have none.
#[test]
fn servers_behind_a_sentinel_have_a_login_of_their_own() {
    let all = Sentinels::start(0, 1);
    let mut c = all.server(0).connection();
    run(&mut c, "ACL SETUSER other on >secret ~* &* +@all").okay();
    run(&mut c, "ACL SETUSER default >another").okay();
    let doctor = Doctor::of(&all.sentinels()[0]);
    assert_eq!(doctor.looks().exit, 3);
    let report = doctor.with(&["--servers-login", "other:secret"]).looks();
    assert!(report.json["error"].is_null(), "{:#}", report.json);
    assert_eq!(report.servers()[0]["role"], "primary");
}
