//! Starting a server on a file full of locks.

use std::fs;
use std::time::Instant;

use testbed::{Expect, Server, cmd, server_cpu};

use crate::part::Part;
use crate::scale::Scale;
use crate::servers::{Program, for_each};
use crate::session::HOUR_MS;
use crate::stats::interleave;
use crate::table::Table;
use crate::ways::{OWNER, command};

pub(super) fn measure(program: &Program, scale: &Scale) -> Part {
    let count = scale.stored_locks;
    let mut contestants = [
        (
            format!("{count} keys of SET PX"),
            stored(program, ["SET", "PX"], count),
        ),
        (
            format!("{count} locks"),
            stored(program, ["LOCK.ACQUIRE", "PX"], count),
        ),
        (
            "no lock".to_owned(),
            stored(program, ["LOCK.ACQUIRE", "PX"], 0),
        ),
        ("no lock, without the module".to_owned(), {
            let mut server = program.builder().without_module().start();
            server.kill9();
            server
        }),
    ];
    let figures = interleave(scale.rounds, &mut contestants, |(_, server)| {
        let start = Instant::now();
        server.restart();
        let millis = start.elapsed().as_secs_f64() * 1000.0;
        let cpu = server_cpu(server.pid()).as_secs_f64() * 1000.0;
        server.kill9();
        let file = fs::metadata(server.dir().join("dump.rdb"));
        let bytes = file.map_or(0, |file| file.len()) as f64 / 1024.0;
        [millis, cpu, bytes]
    });
    let mut table = Table::new(
        format!("Start-up and load of an RDB file: {}", program.version),
        "From the start of the process until it answers, and the CPU of its main thread by then.",
        &["ms", "CPU ms", "file KiB"],
    );
    for ((name, _), [millis, cpu, bytes]) in contestants.iter().zip(&figures) {
        table.row(
            name.clone(),
            vec![millis.spread(), cpu.spread(), bytes.spread()],
        );
    }
    Part::new(table, vec![])
}

/// A stopped server with a file of so many keys.
fn stored(program: &Program, [name, px]: [&str; 2], count: usize) -> Server {
    let mut server = program.builder().start();
    for_each(&mut server.connection(), 0..count, |number| {
        command(&[name, &format!("lock:{number:07}"), OWNER, px], &[HOUR_MS])
    });
    cmd!(server.connection(), "SAVE").okay();
    server.kill9();
    server
}
