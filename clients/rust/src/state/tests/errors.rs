use super::*;

/// The table that all clients share.
#[test]
fn error_replies_are_those_of_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../protocol/errors.json");
    let table = std::fs::read_to_string(path).expect("the table");
    let table: serde_json::Value = serde_json::from_str(&table).expect("JSON");
    let errors = table["errors"].as_array().expect("errors");
    assert!(errors.len() > 20);
    for error in errors {
        let text = format!("{} x", error["begins"].as_str().expect("a text"));
        let fault = Error::reply("server", &text);
        let class = |when: &str| error[when].as_str().expect("a class").to_owned();
        let kind = fault.kind();
        let acquire = if fault.is_passing() {
            "passing"
        } else {
            kind.name()
        };
        assert_eq!(acquire, class("acquire"), "{text}");
        let about_grant = if fault.is_gone() {
            "lost"
        } else if class("release") == "misuse" {
            "misuse" // a deadlock and the like are no reply to a release
        } else {
            acquire
        };
        assert_eq!(about_grant, class("release"), "{text}");
        assert_eq!(class("move") == "lost", fault.is_gone(), "{text}");
    }
}

#[test]
fn messages_name_the_lock_the_server_and_the_cause() {
    let error = Error::reply("host:6379", "WRONGTYPE Operation against");
    let error = error.of("acquire", b"lock:a");
    assert_eq!(error.kind(), ErrorKind::Misuse);
    assert_eq!(error.key(), "lock:a");
    for part in [
        "acquire lock:a",
        "host:6379",
        "WRONGTYPE Operation against",
        "an old SET NX lock",
    ] {
        assert!(error.to_string().contains(part), "{error}");
    }
}
