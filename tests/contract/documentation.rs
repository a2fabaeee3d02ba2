//! What `COMMAND INFO`, `COMMAND GETKEYS` and `COMMAND DOCS` tell of each command.

use crate::support::run;
use redis::{Connection, Value};
use std::collections::{BTreeMap, BTreeSet};
use testbed::{Expect, Server, cmd};

pub(crate) struct Described {
    pub(crate) name: &'static str,
    arity: i64,
    flags: &'static [&'static str],
    key_flags: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
    arguments: &'static str,
}

const INTERNAL: &[&str] = &["@write", "@fast", "@admin", "@dangerous", "@lock"];

pub(crate) const COMMANDS: [Described; 19] = [
    Described {
        name: "lock.acquire",
        arity: -3,
        flags: &["write", "denyoom", "fast", "blocking", "module"],
        key_flags: &["RW", "access", "update"],
        categories: &["@write", "@fast", "@blocking", "@lock"],
        arguments: "key:key owner:string|* [SHARED|LIMIT limit:integer] \
                    [PX milliseconds:integer|EX seconds:integer] \
                    [BLOCK wait-milliseconds:integer|QUEUE queue-milliseconds:integer] \
                    [SESSION session-id:integer] \
                    [HOLDS holds:integer] [TOKEN token:integer]",
    },
    Described {
        name: "lock.release",
        arity: -3,
        flags: &["write", "fast", "module"],
        key_flags: &["RW", "access", "delete"],
        categories: &["@write", "@fast", "@lock"],
        arguments: "key:key owner:string [ALL|HOLDS holds:integer] [SESSION session-id:integer] \
                    [TOKEN token:integer]",
    },
    Described {
        name: "lock.renew",
        arity: -3,
        flags: &["write", "fast", "module"],
        key_flags: &["RW", "access", "update"],
        categories: &["@write", "@fast", "@lock"],
        arguments: "key:key owner:string [SHARED|LIMIT limit:integer] \
                    [PX milliseconds:integer|EX seconds:integer] \
                    [SESSION session-id:integer] \
                    [TOKEN token:integer] \
                    [RAISE raised-token:integer]",
    },
    Described {
        name: "lock.fence",
        arity: -2,
        flags: &["write", "fast", "module"],
        key_flags: &["RO", "access"],
        categories: &["@write", "@fast", "@lock"],
        arguments: "key:key [token:integer]",
    },
    Described {
        name: "lock.info",
        arity: 2,
        flags: &["readonly", "fast", "module"],
        key_flags: &["RO", "access"],
        categories: &["@read", "@fast", "@lock"],
        arguments: "key:key",
    },
    Described {
        name: "lock.holders",
        arity: -2,
        flags: &["readonly", "module"],
        key_flags: &["RO", "access"],
        categories: &["@read", "@slow", "@lock"],
        arguments: "key:key [COUNT count:integer]",
    },
    Described {
        name: "lock.waiters",
        arity: -2,
        flags: &["readonly", "module"],
        key_flags: &["RO", "access"],
        categories: &["@read", "@lock"],
        arguments: "key:key [COUNT count:integer]",
    },
    Described {
        name: "lock.hotkeys",
        arity: -1,
        flags: &["readonly", "noscript", "movablekeys", "module"],
        key_flags: &["RO", "access"],
        categories: &["@read", "@slow", "@lock"],
        arguments: "[COUNT count:integer]",
    },
    Described {
        name: "lock.session",
        arity: -2,
        flags: &["module"],
        key_flags: &[],
        categories: &["@slow", "@lock"],
        arguments: "",
    },
    Described {
        name: "lock.session|open",
        arity: -2,
        flags: &["fast", "module"],
        key_flags: &[],
        categories: &["@fast", "@lock"],
        arguments: "[TIMEOUT timeout-milliseconds:integer] [NAME name:string]",
    },
    Described {
        name: "lock.session|poll",
        arity: -3,
        flags: &["blocking", "module"],
        key_flags: &[],
        categories: &["@slow", "@blocking", "@lock"],
        arguments: "session-id:integer [BLOCK wait-milliseconds:integer]",
    },
    Described {
        name: "lock.session|grants",
        arity: -3,
        flags: &["movablekeys", "module"],
        key_flags: &["RO", "access"],
        categories: &["@read", "@slow", "@lock"],
        arguments: "session-id:integer [COUNT count:integer]",
    },
    Described {
        name: "lock.session|close",
        arity: 3,
        flags: &["write", "module"],
        key_flags: &[],
        categories: &["@write", "@slow", "@lock"],
        arguments: "session-id:integer",
    },
    Described {
        name: "lock.session|kill",
        arity: 3,
        flags: &["write", "admin", "module"],
        key_flags: &[],
        categories: &["@write", "@slow", "@admin", "@dangerous", "@lock"],
        arguments: "session-id:integer",
    },
    Described {
        name: "lock.session|list",
        arity: -2,
        flags: &["readonly", "admin", "module"],
        key_flags: &[],
        categories: &["@read", "@slow", "@admin", "@dangerous", "@lock"],
        arguments: "[COUNT count:integer]",
    },
    Described {
        name: "lock.session|help",
        arity: 2,
        flags: &["fast", "loading", "stale", "module"],
        key_flags: &[],
        categories: &["@slow", "@lock"],
        arguments: "",
    },
    Described {
        name: "lock._apply",
        arity: -3,
        flags: &["write", "fast", "module"],
        key_flags: &["OW", "update"],
        categories: INTERNAL,
        arguments: "key:key effect:string",
    },
    Described {
        name: "lock._clock",
        arity: -2,
        flags: &["write", "fast", "module"],
        key_flags: &[],
        categories: INTERNAL,
        arguments: "token:integer",
    },
    Described {
        name: "lock._probe",
        arity: 2,
        flags: &["write", "fast", "skip_monitor", "module"],
        key_flags: &["RW", "access", "update"],
        categories: INTERNAL,
        arguments: "key:key",
    },
];

impl Described {
    /// Whether the first argument is a key.
    fn has_key(&self) -> bool {
        self.arguments.starts_with("key:key")
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
    let server = Server::start();
    let mut c = server.connection();
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
    let server = Server::start();
    let mut c = server.connection();
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
    let server = Server::start();
    let mut c = server.connection();
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

/// The arguments of a command, which may have none.
fn syntax_of(docs: &BTreeMap<String, Value>) -> String {
    docs.get("arguments").map(syntax).unwrap_or_default()
}

/// An argument tree as one line: `name:type`, keywords before their values, `[optional]`, `a|b`.
fn syntax(arguments: &Value) -> String {
    let arguments = arguments.clone().items();
    arguments.iter().map(argument).collect::<Vec<_>>().join(" ")
}

fn argument(argument: &Value) -> String {
    let fields = argument.clone().fields();
    let text = |field: &str| fields.get(field).map(|value| value.clone().text());
    let kind = text("type").expect("a type");
    let name = text("name").expect("a name");
    let value = match kind.as_str() {
        "oneof" => syntax_of_choice(&fields["arguments"]),
        "pure-token" => text("token").expect("a keyword"),
        _ => match text("token") {
            Some(keyword) => format!("{keyword} {name}:{kind}"),
            None => format!("{name}:{kind}"),
        },
    };
    let flags = fields
        .get("flags")
        .map(|flags| texts(flags.clone()))
        .unwrap_or_default();
    if flags.contains("optional") {
        format!("[{value}]")
    } else {
        value
    }
}

fn syntax_of_choice(choices: &Value) -> String {
    let choices = choices.clone().items();
    choices.iter().map(argument).collect::<Vec<_>>().join("|")
}

#[test]
fn command_docs_are_complete_for_each_command_of_the_module() {
    let server = Server::start();
    let mut c = server.connection();
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

#[test]
fn the_argument_tree_is_the_syntax_of_the_command() {
    let server = Server::start();
    let mut c = server.connection();
    for command in COMMANDS {
        let docs = docs(&mut c, command.name);
        assert_eq!(syntax_of(&docs), command.arguments, "{}", command.name);
    }
}

#[test]
fn command_docs_are_the_same_in_resp3() {
    let server = Server::start();
    let (mut two, mut three) = (server.connection(), server.connection_resp3());
    for command in COMMANDS {
        let (in_two, in_three) = (docs(&mut two, command.name), docs(&mut three, command.name));
        for field in ["summary", "complexity", "since", "group"] {
            assert_eq!(in_two[field], in_three[field], "{}", command.name);
        }
        assert_eq!(syntax_of(&in_two), syntax_of(&in_three));
    }
}

#[test]
fn what_was_added_later_says_since_when() {
    let server = Server::start();
    let mut c = server.connection();
    for (command, added) in [
        ("lock.acquire", "SHARED LIMIT SESSION"),
        ("lock.renew", "SHARED LIMIT SESSION"),
        ("lock.release", "SESSION"),
    ] {
        let docs = docs(&mut c, command);
        let mut later = Vec::new();
        for argument in docs["arguments"].clone().items() {
            let mut fields = argument.fields();
            // Of a choice, for all of it.
            let Some(since) = fields.remove("since") else {
                continue;
            };
            let since = since.text();
            let keyword = |fields: &mut BTreeMap<String, Value>| {
                fields.remove("token").expect("a keyword").text()
            };
            let before = later.len();
            match fields.remove("arguments") {
                Some(choices) => {
                    let choices = choices.items().into_iter();
                    later.extend(choices.map(|choice| keyword(&mut choice.fields())));
                }
                None => later.push(keyword(&mut fields)),
            }
            for keyword in &later[before..] {
                assert_eq!(since, "0.3.0", "{command} {keyword}");
            }
        }
        later.sort();
        let mut added: Vec<_> = added.split(' ').collect();
        added.sort_unstable();
        assert_eq!(later, added, "{command}");
        let history = docs["history"].clone().items();
        let last = history.last().expect("a history").clone().items();
        assert_eq!(last[0].clone().text(), "0.3.0", "{command}");
    }
    assert_eq!(
        docs(&mut c, "lock.holders")["since"].clone().text(),
        "0.3.0"
    );
}
