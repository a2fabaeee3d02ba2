//! `kill -9`.

use crate::*;

#[test]
fn a_crash_in_the_middle_of_a_rewrite_loses_no_acknowledged_command() {
    for preamble in PREAMBLES {
        let mut server = append_only(preamble)
            .config("appendfsync", "always")
            // The child takes its time, and is there when the server goes.
            .config("rdb-key-save-delay", "20000")
            .start();
        let mut traffic = Traffic::on(&server);
        traffic.run(300);
        for _ in 0..2 {
            cmd!(server.connection(), "BGREWRITEAOF").value();
            traffic.run(100);
            let before = Before::of(&server, &mut traffic);
            server.kill9();
            server.restart();
            before.is_kept_by(&server, &format!("preamble {preamble}"));
            traffic.move_to(&server);
        }
    }
}

#[test]
fn an_append_only_file_cut_off_in_the_middle_of_an_effect_gives_what_came_before() {
    let (mut server, mut c) = append_only("yes").started();
    let kept = cmd!(c, "LOCK.ACQUIRE", "whole", "o").grant();
    cmd!(c, "LOCK.ACQUIRE", "cut", "o").grant();
    server.kill9();

    let tail = aof_part(&server, ".incr.aof");
    let bytes = fs::read(&tail).expect("its bytes");
    fs::write(&tail, &bytes[..bytes.len() - 9]).expect("a shorter file");
    server.restart();

    let mut c = server.connection();
    assert_eq!(cmd!(c, "LOCK.FENCE", "whole").int(), kept.token);
    cmd!(c, "LOCK.FENCE", "cut").nil();
    assert!(server.next_token() > kept.token);
}
