//! The list of servers that the module is tested on.

use super::{script, told};

#[test]
fn names_come_from_the_list_for_people_and_for_workflows() {
    let names = told(&script("servers.sh", &["names"], &[]));
    let names: Vec<_> = names.lines().collect();
    assert!(names.len() >= 4, "{names:?}");
    for name in &names {
        let (kind, line) = name.rsplit_once('-').expect("kind and line");
        assert!(["redis", "valkey"].contains(&kind), "{name}");
        assert!(line.split('.').count() == 2, "{name}");
    }
    let json = told(&script("servers.sh", &["json"], &[]));
    assert_eq!(json.trim(), format!("{names:?}").replace(", ", ","));
}

#[test]
fn an_unknown_server_is_refused() {
    let output = script("servers.sh", &["redis-0.1"], &[]);
    assert!(!output.status.success());
    assert_eq!(
        told(&output).trim(),
        "servers.sh: no such server: redis-0.1"
    );
}
