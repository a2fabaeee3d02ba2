//! The users that the manual gives a server.

const MANUAL: &str = include_str!("../../../../docs/operations/users.md");

/// The lines `ACL SETUSER name ...` of the manual, of which there is at least one.
#[track_caller]
pub fn rules(name: &str) -> Vec<&'static str> {
    let start = format!("ACL SETUSER {name} ");
    let lines = MANUAL.lines().filter(|line| line.starts_with(&start));
    let rules: Vec<_> = lines.collect();
    assert!(!rules.is_empty(), "the manual has no user {name}");
    rules
}
