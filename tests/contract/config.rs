//! The `lock.*` settings.

use crate::support::{TEN_YEARS_MS, run, starts_lease, unchanged};
use redis::Connection;
use testbed::{Expect, Server, cmd, started};

struct Setting {
    name: &'static str,
    default: i64,
    least: i64,
    most: i64,
}

const fn setting(name: &'static str, default: i64, least: i64, most: i64) -> Setting {
    Setting {
        name,
        default,
        least,
        most,
    }
}

const SETTINGS: [Setting; 8] = [
    setting("lock.default-lease-ms", 30_000, 1, TEN_YEARS_MS),
    setting("lock.max-holders", 10_000, 1, 1_000_000),
    setting("lock.max-lease-ms", TEN_YEARS_MS, 1, TEN_YEARS_MS),
    setting("lock.max-queued", 1_000_000, 0, 100_000_000),
    setting("lock.max-sessions", 10_000, 0, 1_000_000),
    setting("lock.max-token-lead-ms", 5_000, 0, 86_400_000),
    setting("lock.max-waiters", 10_000, 0, 1_000_000),
    setting("lock.max-waiters-total", 10_000, 0, 1_000_000),
];

#[track_caller]
fn set(c: &mut Connection, name: &str, value: i64) {
    cmd!(*c, "CONFIG", "SET", name, value).okay();
}

#[track_caller]
fn get(c: &mut Connection, name: &str) -> i64 {
    let mut fields = cmd!(*c, "CONFIG", "GET", name).fields();
    let value = fields.remove(name).unwrap_or_else(|| panic!("no {name}"));
    value.text().parse().expect("a number")
}

#[test]
fn each_setting_has_its_default_and_there_are_no_others() {
    let (_server, mut c) = started();
    for setting in &SETTINGS {
        let name = setting.name;
        assert_eq!(get(&mut c, name), setting.default, "{name}");
    }
    let all: Vec<_> = cmd!(c, "CONFIG", "GET", "lock.*")
        .fields()
        .into_keys()
        .collect();
    let mut known = SETTINGS.map(|setting| setting.name).to_vec();
    known.insert(0, "lock.deadlock-detection");
    assert_eq!(all, known);
}

#[test]
fn what_is_on_or_off_takes_yes_and_no_alone() {
    let (_server, mut c) = started();
    let name = "lock.deadlock-detection";
    let get = |c: &mut Connection| {
        let value = cmd!(*c, "CONFIG", "GET", name).fields().remove(name);
        value.expect(name).text()
    };
    assert_eq!(get(&mut c), "yes");
    for value in ["no", "yes", "no"] {
        cmd!(c, "CONFIG", "SET", name, value).okay();
        assert_eq!(get(&mut c), value);
    }
    for value in ["", "x", "1", "true"] {
        cmd!(c, "CONFIG", "SET", name, value).refused("ERR");
        assert_eq!(get(&mut c), "no");
    }
}

#[test]
fn a_setting_takes_what_is_within_its_bounds_and_nothing_else() {
    let (_server, mut c) = started();
    for Setting {
        name, least, most, ..
    } in &SETTINGS
    {
        for value in [*most, *least, least + 1] {
            set(&mut c, name, value);
            assert_eq!(get(&mut c, name), value);
        }
        let now = get(&mut c, name);
        let numbers = [least - 1, most + 1, i64::MIN, i64::MAX].map(|number| number.to_string());
        let others = ["", "x", "1.5", "1s", "99999999999999999999", "-0x1"].map(str::to_owned);
        for value in numbers.iter().chain(&others) {
            cmd!(c, "CONFIG", "SET", name, value).refused("ERR");
            assert_eq!(get(&mut c, name), now, "{name} after {value:?}");
        }
    }
}

#[test]
fn lines_of_redis_conf_are_taken() {
    let values = [1500, 3, 9000, 100_000_000, 77, 0, 1_000_000, 999_999];
    let lines = SETTINGS.iter().zip(values);
    let settings = lines.fold(Server::builder(), |settings, (setting, value)| {
        settings.config(setting.name, &value.to_string())
    });
    let (_server, mut c) = settings.started();
    assert_eq!(SETTINGS.map(|setting| get(&mut c, setting.name)), values);
    let grant = starts_lease(&mut c, "k", 1500, |c| run(c, "LOCK.ACQUIRE k a")).grant();
    assert_eq!(grant.lease, 1500);
}

#[test]
fn rewrite_keeps_the_settings_over_a_restart() {
    let (mut server, mut c) = started();
    for (setting, value) in SETTINGS.iter().zip(2..) {
        set(&mut c, setting.name, value);
    }
    run(&mut c, "CONFIG REWRITE").okay();
    server.restart();
    let mut c = server.connection();
    let values = SETTINGS.map(|setting| get(&mut c, setting.name));
    assert_eq!(values, [2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn a_line_out_of_range_or_unknown_refuses_the_start() {
    let manual = include_str!("../../docs/operations/troubleshooting.md");
    let range = "argument must be between";
    let number = "argument couldn't be parsed into an integer";
    let unknown =
        "Module Configuration detected without loadmodule directive or no ApplyConfig call";
    for (name, value, words) in [
        ("lock.default-lease-ms", "0", range),
        ("lock.max-holders", "0", range),
        ("lock.max-lease-ms", "315360000001", range),
        ("lock.max-queued", "100000001", range),
        ("lock.max-token-lead-ms", "-1", range),
        ("lock.max-waiters", "many", number),
        ("lock.max-waiters-total", "1000001", range),
        ("lock.no-such-setting", "1", unknown),
    ] {
        let log = Server::builder().config(name, value).try_start().err();
        let log = log.unwrap_or_else(|| panic!("{name} {value} was taken"));
        assert!(log.contains(words), "{log}");
        assert!(manual.contains(words), "{words}");
    }
}

#[test]
fn arguments_of_loadmodule_are_refused_with_a_line_that_says_so() {
    for args in ["default-lease-ms 5", "lock.max-waiters 5", "x"] {
        let log = Server::builder().module_args(args).try_start().err();
        let log = log.unwrap_or_else(|| panic!("{args} was taken"));
        let says_so = |line: &str| line.contains("no arguments") && line.contains("redis.conf");
        assert!(log.lines().any(says_so), "{log}");
    }
}

#[test]
fn the_default_lease_is_cut_to_the_maximum_when_it_is_taken() {
    let (_server, mut c) = started();
    set(&mut c, "lock.max-lease-ms", 2_000);
    assert_eq!(get(&mut c, "lock.default-lease-ms"), 30_000);
    let grant = starts_lease(&mut c, "k", 2_000, |c| run(c, "LOCK.ACQUIRE k a")).grant();
    assert_eq!(grant.lease, 2_000);
    set(&mut c, "lock.max-lease-ms", TEN_YEARS_MS);
    assert_eq!(run(&mut c, "LOCK.ACQUIRE l a").grant().lease, 30_000);
}

#[test]
fn the_maximum_is_judged_on_the_argument_when_the_call_arrives() {
    let (_server, mut c) = started();
    run(&mut c, "LOCK.ACQUIRE k a PX 60000").grant();
    set(&mut c, "lock.max-lease-ms", 5_999);
    for lease in ["PX 6000", "PX 60000", "EX 6"] {
        for line in [
            format!("LOCK.ACQUIRE k a {lease}"),
            format!("LOCK.RENEW k a {lease}"),
        ] {
            let error = unchanged(&mut c, "k", |c| run(c, &line)).refused("ERR");
            assert!(error.contains("lock.max-lease-ms"), "{error}");
        }
        let line = format!("LOCK.ACQUIRE free a {lease}");
        unchanged(&mut c, "free", |c| run(c, &line)).refused("ERR");
    }
    run(&mut c, "LOCK.ACQUIRE free a PX 5999").grant();
    run(&mut c, "LOCK.RENEW free a EX 5").grant();
}

#[test]
fn a_remembered_lease_stays_when_the_maximum_falls_below_it() {
    let (_server, mut c) = started();
    run(&mut c, "LOCK.ACQUIRE k a PX 60000").grant();
    set(&mut c, "lock.max-lease-ms", 1_000);
    for line in [
        "LOCK.ACQUIRE k a",
        "LOCK.ACQUIRE k a PX 500",
        "LOCK.RENEW k a",
    ] {
        let grant = starts_lease(&mut c, "k", 60_000, |c| run(c, line)).grant();
        assert_eq!(grant.lease, 60_000, "{line}");
    }
    run(&mut c, "PEXPIRE k 5000").int();
    starts_lease(&mut c, "k", 60_000, |c| run(c, "LOCK.RELEASE k a")).int();
    assert_eq!(run(&mut c, "LOCK.RENEW k a PX 1000").grant().lease, 1_000);
}
