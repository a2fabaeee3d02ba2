//! What `COMMAND INFO`, `COMMAND GETKEYS` and `COMMAND DOCS` tell of each command.

use crate::support::run;
use redis::{Connection, Value};
use std::collections::{BTreeMap, BTreeSet};
use testbed::{Expect, Server, cmd, started};

pub(crate) struct Described {
    pub(crate) name: &'static str,
    arity: i64,
    flags: &'static [&'static str],
    key_flags: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
}

const INTERNAL: &[&str] = &["@write", "@fast", "@admin", "@dangerous", "@lock"];

pub(crate) const COMMANDS: [Described; 19] = [
    Described {
        name: "lock.acquire",
        arity: -3,
        flags: &["write", "denyoom", "fast", "blocking", "module"],
        key_flags: &["RW", "access", "update"],
        categories: &["@write", "@fast", "@blocking", "@lock"],
    },
    Described {
        name: "lock.release",
        arity: -3,
        flags: &["write", "fast", "module"],
        key_flags: &["RW", "access", "delete"],
        categories: &["@write", "@fast", "@lock"],
    },
    Described {
        name: "lock.renew",
        arity: -3,
        flags: &["write", "fast", "module"],
        key_flags: &["RW", "access", "update"],
        categories: &["@write", "@fast", "@lock"],
    },
    Described {
        name: "lock.fence",
        arity: -2,
        flags: &["write", "fast", "module"],
        key_flags: &["RO", "access"],
        categories: &["@write", "@fast", "@lock"],
    },
    Described {
        name: "lock.info",
        arity: 2,
        flags: &["readonly", "fast", "module"],
        key_flags: &["RO", "access"],
        categories: &["@read", "@fast", "@lock"],
    },
    Described {
        name: "lock.holders",
        arity: -2,
        flags: &["readonly", "module"],
        key_flags: &["RO", "access"],
        categories: &["@read", "@slow", "@lock"],
    },
    Described {
        name: "lock.waiters",
        arity: -2,
        flags: &["readonly", "module"],
        key_flags: &["RO", "access"],
        categories: &["@read", "@lock"],
    },
    Described {
        name: "lock.hotkeys",
        arity: -1,
        flags: &["readonly", "noscript", "movablekeys", "module"],
        key_flags: &["RO", "access"],
        categories: &["@read", "@slow", "@lock"],
    },
    Described {
        name: "lock.session",
        arity: -2,
        flags: &["module"],
        key_flags: &[],
        categories: &["@slow", "@lock"],
    },
    Described {
        name: "lock.session|open",
        arity: -2,
        flags: &["fast", "module"],
        key_flags: &[],
        categories: &["@fast", "@lock"],
    },
    Described {
        name: "lock.session|poll",
        arity: -3,
        flags: &["blocking", "module"],
        key_flags: &[],
        categories: &["@slow", "@blocking", "@lock"],
    },
    Described {
        name: "lock.session|grants",
        arity: -3,
        flags: &["movablekeys", "module"],
        key_flags: &["RO", "access"],
        categories: &["@read", "@slow", "@lock"],
    },
    Described {
        name: "lock.session|close",
        arity: 3,
        flags: &["write", "module"],
        key_flags: &[],
        categories: &["@write", "@slow", "@lock"],
    },
    Described {
        name: "lock.session|kill",
        arity: 3,
        flags: &["write", "admin", "module"],
        key_flags: &[],
        categories: &["@write", "@slow", "@admin", "@dangerous", "@lock"],
    },
    Described {
        name: "lock.session|list",
        arity: -2,
        flags: &["readonly", "admin", "module"],
        key_flags: &[],
        categories: &["@read", "@slow", "@admin", "@dangerous", "@lock"],
    },
    Described {
        name: "lock.session|help",
        arity: 2,
        flags: &["fast", "loading", "stale", "module"],
        key_flags: &[],
        categories: &["@slow", "@lock"],
    },
    Described {
        name: "lock._apply",
        arity: -3,
        flags: &["write", "fast", "module"],
        key_flags: &["OW", "update"],
        categories: INTERNAL,
    },
    Described {
        name: "lock._clock",
        arity: -2,
        flags: &["write", "fast", "module"],
        key_flags: &[],
        categories: INTERNAL,
    },
    Described {
        name: "lock._probe",
        arity: 2,
        flags: &["write", "fast", "skip_monitor", "module"],
        key_flags: &["RW", "access", "update"],
        categories: INTERNAL,
    },
];

impl Described {
    /// Whether the first argument is a key.
    fn has_key(&self) -> bool {
        !self.key_flags.is_empty() && !self.flags.contains(&"movablekeys")
    }
}

fn texts(value: Value) -> BTreeSet<String> {
    value.items().into_iter().map(Expect::text).collect()
}

fn set(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn command_info_tells_arity_flags_key_positions_and_categories() {
    let (_server, mut c) = started();
    let version = Server::version();
    let has_categories = version.is_redis_from(7, 4) || version.is_valkey_from(8, 0);
    for command in COMMANDS {
        let name = command.name;
        let info = cmd!(c, "COMMAND", "INFO", name).items().remove(0).items();
        assert_eq!(info[0].clone().text(), name);
        assert_eq!(info[1].clone().int(), command.arity, "{name}");
        assert_eq!(texts(info[2].clone()), set(command.flags), "{name}");
        let positions: Vec<_> = info[3..6].iter().cloned().map(Expect::int).collect();
        let key = i64::from(command.has_key());
        assert_eq!(positions, [key; 3], "{name}");
        let categories = if has_categories {
            command.categories
        } else {
            &[]
        };
        assert_eq!(texts(info[6].clone()), set(categories), "{name}");
    }
}

#[test]
fn the_key_spec_tells_where_the_key_is_and_what_becomes_of_it() {
    let (_server, mut c) = started();
    for command in COMMANDS {
        let name = command.name;
        let info = cmd!(c, "COMMAND", "INFO", name).items().remove(0).items();
        let specs = info[8].clone().items();
        if command.key_flags.is_empty() {
            assert!(specs.is_empty(), "{name}");
            continue;
        }
        let [spec] = specs.try_into().expect("one key spec");
        let spec = spec.fields();
        assert_eq!(
            texts(spec["flags"].clone()),
            set(command.key_flags),
            "{name}"
        );
        let begin = spec["begin_search"].clone().fields();
        let (kind, place) = (begin["type"].clone().text(), begin["spec"].clone().fields());
        if command.has_key() {
            assert_eq!((kind.as_str(), &place["index"]), ("index", &Value::Int(1)));
        } else {
            assert_eq!(
                (kind.as_str(), place["keyword"].clone().text()),
                ("keyword", "KEY".to_owned())
            );
        }
        let find = spec["find_keys"].clone().fields();
        assert_eq!(find["type"].clone().text(), "range");
        assert_eq!(find["spec"].clone().fields()["lastkey"], Value::Int(0));
    }
}

#[test]
fn getkeys_finds_the_key() {
    let (_server, mut c) = started();
    for (line, flags) in [
        (
            "LOCK.ACQUIRE key a LIMIT 2 PX 1 BLOCK 0 HOLDS 2",
            &["RW", "access", "update"][..],
        ),
        (
            "LOCK.ACQUIRE key a QUEUE 0 SESSION 5 HOLDS 1",
            &["RW", "access", "update"],
        ),
        ("LOCK.RELEASE key a ALL", &["RW", "access", "delete"]),
        (
            "LOCK.RENEW key a SHARED TOKEN 1 RAISE 2",
            &["RW", "access", "update"],
        ),
        ("LOCK.FENCE key", &["RO", "access"]),
        ("LOCK.FENCE key 5", &["RO", "access"]),
        ("LOCK.INFO key", &["RO", "access"]),
        ("LOCK.HOLDERS key COUNT 5", &["RO", "access"]),
        ("LOCK.WAITERS key COUNT 5", &["RO", "access"]),
        ("LOCK._APPLY key effect more", &["OW", "update"]),
    ] {
        let keys = run(&mut c, &format!("COMMAND GETKEYS {line}")).items();
        assert_eq!(keys, [Value::BulkString(b"key".to_vec())], "{line}");
        let keys = run(&mut c, &format!("COMMAND GETKEYSANDFLAGS {line}")).items();
        let [key] = keys.try_into().expect("one key");
        assert_eq!(texts(key.items()[1].clone()), set(flags), "{line}");
    }
    for line in ["LOCK._CLOCK 5", "LOCK.HOTKEYS", "LOCK.HOTKEYS COUNT 5"] {
        run(&mut c, &format!("COMMAND GETKEYS {line}")).refused("ERR");
    }
}

pub(crate) fn docs(c: &mut Connection, name: &str) -> BTreeMap<String, Value> {
    let mut all = cmd!(*c, "COMMAND", "DOCS", name).fields();
    all.remove(name)
        .unwrap_or_else(|| panic!("no docs of {name}"))
        .fields()
}

#[test]
fn command_docs_are_complete_for_each_command_of_the_module() {
    let (_server, mut c) = started();
    let listed = texts(run(&mut c, "COMMAND LIST FILTERBY MODULE lock").value());
    let known: BTreeSet<_> = COMMANDS
        .iter()
        .map(|command| command.name.to_owned())
        .collect();
    assert_eq!(listed, known);
    for name in listed {
        let docs = docs(&mut c, &name);
        let text = |field: &str| docs[field].clone().text();
        assert!(
            text("summary").ends_with('.'),
            "{name}: {}",
            text("summary")
        );
        assert!(text("complexity").starts_with("O("), "{name}");
        assert_eq!(text("since").split('.').count(), 3, "{name}");
        assert_eq!(text("group"), "module", "{name}");
        assert_eq!(text("module"), "lock", "{name}");
    }
}
