//! What `COMMAND INFO`, `COMMAND GETKEYS` and `COMMAND DOCS` tell of each command.

use crate::support::run;
use redis::{Connection, Value};
use std::collections::{BTreeMap, BTreeSet};
use testbed::{Expect, Server, cmd, started};

pub(crate) struct Described {
    pub(crate) name: &'static str,
    arity: i64,
    flags: Vec<&'static str>,
    key_flags: Vec<&'static str>,
    pub(crate) categories: Vec<&'static str>,
}

/// Name; arity; flags; flags of the key; categories.
const COMMANDS: &str = "\
lock.acquire; -3; write denyoom fast blocking module; RW access update; @write @fast @blocking @lock
lock.release; -3; write fast module; RW access delete; @write @fast @lock
lock.renew; -3; write fast module; RW access update; @write @fast @lock
lock.fence; -2; write fast module; RO access; @write @fast @lock
lock.info; 2; readonly fast module; RO access; @read @fast @lock
lock.holders; -2; readonly module; RO access; @read @slow @lock
lock.waiters; -2; readonly module; RO access; @read @lock
lock.hotkeys; -1; readonly noscript movablekeys module; RO access; @read @slow @lock
lock.session; -2; module; ; @slow @lock
lock.session|open; -2; fast module; ; @fast @lock
lock.session|poll; -3; blocking module; ; @slow @blocking @lock
lock.session|grants; -3; movablekeys module; RO access; @read @slow @lock
lock.session|close; 3; write module; ; @write @slow @lock
lock.session|kill; 3; write admin module; ; @write @slow @admin @dangerous @lock
lock.session|list; -2; readonly admin module; ; @read @slow @admin @dangerous @lock
lock.session|help; 2; fast loading stale module; ; @slow @lock
lock._apply; -3; write fast module; OW update; @write @fast @admin @dangerous @lock
lock._clock; -2; write fast module; ; @write @fast @admin @dangerous @lock
lock._probe; 2; write fast skip_monitor module; RW access update; @write @fast @admin @dangerous @lock";

/// All commands of the module.
pub(crate) fn commands() -> Vec<Described> {
    let described = |line: &'static str| {
        let mut cells = line.split(';').map(str::trim);
        let mut next = || cells.next().expect("five cells");
        let words = |cell: &'static str| cell.split_whitespace().collect();
        Described {
            name: next(),
            arity: next().parse().expect("a number"),
            flags: words(next()),
            key_flags: words(next()),
            categories: words(next()),
        }
    };
    COMMANDS.lines().map(described).collect()
}

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
    let has_categories = Server::version().has_module_categories();
    for command in commands() {
        let name = command.name;
        let info = cmd!(c, "COMMAND", "INFO", name).items().remove(0).items();
        assert_eq!(info[0].clone().text(), name);
        assert_eq!(info[1].clone().int(), command.arity, "{name}");
        assert_eq!(texts(info[2].clone()), set(&command.flags), "{name}");
        let positions: Vec<_> = info[3..6].iter().cloned().map(Expect::int).collect();
        let key = i64::from(command.has_key());
        assert_eq!(positions, [key; 3], "{name}");
        let told = texts(info[6].clone());
        if has_categories {
            assert_eq!(told, set(&command.categories), "{name}");
        } else {
            assert!(told.is_empty(), "{name}: {told:?}");
        }
    }
}

#[test]
fn the_key_spec_tells_where_the_key_is_and_what_becomes_of_it() {
    let (_server, mut c) = started();
    for command in commands() {
        let name = command.name;
        let info = cmd!(c, "COMMAND", "INFO", name).items().remove(0).items();
        let specs = info[8].clone().items();
        if command.key_flags.is_empty() {
            assert!(specs.is_empty(), "{name}");
            continue;
        }
        let [spec] = specs.try_into().expect("one key spec");
        let spec = spec.fields();
        let flags = texts(spec["flags"].clone());
        assert_eq!(flags, set(&command.key_flags), "{name}");
        let begin = spec["begin_search"].clone().fields();
        let (kind, place) = (begin["type"].clone().text(), begin["spec"].clone().fields());
        if command.has_key() {
            assert_eq!((kind.as_str(), &place["index"]), ("index", &Value::Int(1)));
        } else {
            let keyword = place["keyword"].clone().text();
            assert_eq!((kind.as_str(), &keyword[..]), ("keyword", "KEY"));
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
    let known: Vec<_> = commands().iter().map(|command| command.name).collect();
    let known = set(&known);
    assert_eq!(listed, known);
    for name in listed {
        let docs = docs(&mut c, &name);
        let text = |field: &str| docs[field].clone().text();
        let summary = text("summary");
        assert!(summary.ends_with('.'), "{name}: {summary}");
        assert!(text("complexity").starts_with("O("), "{name}");
        assert_eq!(text("since").split('.').count(), 3, "{name}");
        assert_eq!(text("group"), "module", "{name}");
        assert_eq!(text("module"), "lock", "{name}");
    }
}
