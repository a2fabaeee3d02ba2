//! The program as it is started.

use std::process::{Command, Stdio};

#[test]
fn without_a_terminal_it_says_so() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_redis-lock-top"));
    let output = program.stdin(Stdio::null()).output().expect("the program");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.starts_with("redis-lock-top: it needs a terminal"),
        "{told}"
    );
    assert!(
        output.stdout.is_empty() && told.lines().count() == 1,
        "{told}"
    );
}
