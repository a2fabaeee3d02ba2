//! `lock.deadlock-detection`.

use crate::support::Stage;
use testbed::{Expect, Server, cmd};

const NAME: &str = "lock.deadlock-detection";

#[test]
fn is_on_and_can_be_turned_off_and_on_again() {
    let mut stage = Stage::cycle();
    let value = cmd!(stage.c, "CONFIG", "GET", NAME).fields().remove(NAME);
    assert_eq!(value.unwrap().text(), "yes");
    stage.told("j a", 2);
    cmd!(stage.c, "CONFIG", "SET", NAME, "no").okay();
    stage.wait(["j a"]);
    stage.all_wait();
    assert_eq!(stage.count(), 1);
    // Turned on, it judges those that begin to wait from now on.
    cmd!(stage.c, "CONFIG", "SET", NAME, "yes").okay();
    stage.all_wait();
    stage.told("k b", 2);
    stage.told("j a", 2);
}

#[test]
fn is_read_from_redis_conf_and_written_there() {
    let mut server = Server::builder().config(NAME, "no").start();
    let mut stage = Stage::on(server).with_cycle();
    stage.wait(["j a"]);
    cmd!(stage.c, "CONFIG", "SET", NAME, "yes").okay();
    cmd!(stage.c, "CONFIG", "REWRITE").okay();
    stage.told("k b", 2);
    server = stage.server;
    server.restart();
    let mut stage = Stage::on(server).with_cycle();
    stage.told("j a", 2);
}
