//! `LOCK.RELEASE`.

use crate::support::{deadline, now_ms, run, starts_lease, unchanged};
use redis::Connection;
use testbed::{Expect, Server, cmd};

fn hold(c: &mut Connection, times: usize, lease: &str) -> i64 {
    let line = format!("LOCK.ACQUIRE k a {lease}");
    (0..times).fold(0, |_, _| run(c, &line).grant().token)
}

#[test]
fn each_call_gives_back_one_hold_and_the_last_frees_the_lock() {
    let server = Server::start();
    let mut c = server.connection();
    hold(&mut c, 3, "");
    for left in [2, 1] {
        assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), left);
        assert_eq!(run(&mut c, "LOCK.INFO k").lock_info().holds, left);
    }
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    assert_eq!(cmd!(c, "EXISTS", "k").int(), 0);
    run(&mut c, "LOCK.ACQUIRE k b").grant();
}

#[test]
fn holds_gives_back_down_to_a_count_and_never_more() {
    let server = Server::start();
    let mut c = server.connection();
    hold(&mut c, 5, "");
    assert_eq!(run(&mut c, "LOCK.RELEASE k a HOLDS 3").int(), 3);
    for (wanted, left) in [("3", 3), ("4", 3), ("2147483647", 3)] {
        let line = format!("LOCK.RELEASE k a HOLDS {wanted}");
        assert_eq!(unchanged(&mut c, "k", |c| run(c, &line)).int(), left);
    }
    assert_eq!(run(&mut c, "LOCK.RELEASE k a HOLDS 1").int(), 1);
    assert_eq!(run(&mut c, "LOCK.RELEASE k a HOLDS 0").int(), 0);
    assert_eq!(cmd!(c, "EXISTS", "k").int(), 0);
    run(&mut c, "LOCK.RELEASE k a HOLDS 0").refused("NOTHELD");
}

#[test]
fn a_release_that_leaves_holds_refreshes_the_lease_and_never_shortens_it() {
    let server = Server::start();
    let mut c = server.connection();
    hold(&mut c, 4, "PX 60000");
    for line in ["LOCK.RELEASE k a", "LOCK.RELEASE k a HOLDS 2"] {
        cmd!(c, "PEXPIRE", "k", 5_000).int();
        starts_lease(&mut c, "k", 60_000, |c| run(c, line)).int();
    }
    let far = now_ms() + 500_000;
    cmd!(c, "PEXPIREAT", "k", far).int();
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 1);
    assert_eq!(deadline(&mut c, "k"), far);
}

#[test]
fn a_call_repeated_after_the_last_release_learns_that_it_is_done() {
    let server = Server::start();
    let mut c = server.connection();
    let token = hold(&mut c, 1, "");
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    let forms = ["", "ALL", "HOLDS 0", "HOLDS 7"];
    let tokens = [String::new(), format!("TOKEN {token}")];
    let lines: Vec<_> = forms
        .iter()
        .flat_map(|form| {
            tokens
                .iter()
                .map(move |token| format!("LOCK.RELEASE k a {form} {token}"))
        })
        .collect();
    for line in &lines {
        unchanged(&mut c, "k", |c| run(c, line)).refused("NOTHELD");
    }
    run(&mut c, "LOCK.ACQUIRE k b").grant();
    for line in &lines {
        unchanged(&mut c, "k", |c| run(c, line)).refused("NOTOWNER");
    }
    cmd!(c, "DEL", "k").int();
    hold(&mut c, 1, "");
    for line in lines.iter().filter(|line| line.contains("TOKEN")) {
        unchanged(&mut c, "k", |c| run(c, line)).refused("FENCED");
    }
}
