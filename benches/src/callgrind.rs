//! Programs under callgrind, which counts the instructions that they take.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use redis::{Cmd, Connection, Value};
use testbed::{Expect, Server, cmd};

use crate::facts::{output, target_folder};
use crate::servers::{Batch, Program, Setting, settle};
use crate::session::open_session;
use crate::ways::Way;

/// Pairs of one write, and writes of one count.
const BATCH: u32 = 500;
const BATCHES: u32 = 40;
/// How many locks are held at once. Under callgrind a server is fifty times slower, but its timers are not: in a large
/// batch, the timer of the session would find each lock still held.
const HELD: u32 = 50;

/// The error says that it is missing.
pub(crate) fn need_valgrind() -> Result<(), String> {
    let is_here = output("valgrind", &["--version"]) != "unknown";
    is_here
        .then_some(())
        .ok_or_else(|| "valgrind is not installed".to_owned())
}

/// The instructions of one of `count`: the difference between a run with so many and a run with none. Of each
/// the minimum of two runs, because what runs by the clock only adds to it.
pub(crate) fn each(count: u32, run: impl Fn(u32) -> Result<u64, String>) -> Result<u64, String> {
    let least = |count| -> Result<u64, String> { Ok(run(count)?.min(run(count)?)) };
    Ok(least(count)?.saturating_sub(least(0)?) / u64::from(count))
}

/// The instructions of a program from its start to its end.
pub(crate) fn of_program(program: &Path, argument: impl AsRef<OsStr>) -> Result<u64, String> {
    let (options, file) = options("program");
    let run = Command::new("valgrind")
        .args(options)
        .arg(program)
        .arg(argument)
        .output();
    let run = run.map_err(|error| format!("valgrind: {error}"))?;
    if !run.status.success() {
        return Err(String::from_utf8_lossy(&run.stderr).into_owned());
    }
    counted(&file)
}

/// The same of a server.
pub(crate) fn of_server(
    program: &Program,
    setting: Setting,
    work: impl FnOnce(&Server) -> Result<(), String>,
) -> Result<u64, String> {
    let (options, file) = options("server");
    let script = target_folder().join("server-under-callgrind.sh");
    let text = format!(
        "#!/bin/sh\nexec valgrind {} '{}' '{}' \"$@\"\n",
        options[0],
        options[1],
        program.path().display()
    );
    fs::write(&script, text).map_err(|error| error.to_string())?;
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&script, executable).map_err(|error| error.to_string())?;
    let builder = setting.of(program.builder()).program(&script);
    let mut server = builder.config("jemalloc-bg-thread", "no").try_start()?;
    settle(&server);
    let replica = setting.replica_of(&server, program);
    // The cron goes by the clock: as little of it as can be.
    cmd!(server.connection(), "CONFIG", "SET", "hz", 1).okay();
    work(&server)?;
    if let Some(replica) = &replica {
        server.wait_for_sync(replica);
    }
    server.stop();
    counted(&file)
}

/// The instructions of a pair without contention, pipelined: reading, running, replying.
pub(crate) fn pair(program: &Program, setting: Setting, way: Way) -> Result<u64, String> {
    pair_of(program, setting, |connection| {
        way.prepare(connection)?;
        let pair = |number| way.pair(&format!("lock:{number}"));
        Ok((0..BATCH).flat_map(pair).collect())
    })
}

/// The same of these pairs, on a prepared server.
pub(crate) fn pair_of(
    program: &Program,
    setting: Setting,
    prepare: impl Fn(&mut Connection) -> Result<Vec<Cmd>, String>,
) -> Result<u64, String> {
    let run = |batches: u32| {
        of_server(program, setting, |server| {
            let mut batch = Batch::new(server, prepare(&mut server.connection())?);
            // The first batch makes room that all others use.
            (0..=batches).for_each(|_| batch.send());
            Ok(())
        })
    };
    Ok(each(BATCHES, run)? / u64::from(BATCH))
}

/// The same for locks that are acquired together, then released by their tokens, as a program with a session does: in
/// a session, or without one.
pub(crate) fn held_pair(program: &Program, in_session: bool) -> Result<u64, String> {
    let run = |batches: u32| {
        of_server(program, Setting::Plain, |server| {
            let mut connection = server.connection();
            let session = in_session.then(|| open_session(&mut connection));
            let add_session = |command: &mut Cmd| {
                if let Some(session) = session {
                    command.arg("SESSION").arg(session);
                }
            };
            for _ in 0..(batches + 1) * BATCH / HELD {
                let mut acquires = redis::Pipeline::new();
                let mut releases = redis::Pipeline::new();
                for number in 0..HELD {
                    let [mut acquire, _] = Way::Module.pair(&format!("lock:{number}"));
                    add_session(&mut acquire);
                    acquires.add_command(acquire);
                }
                let grants: Vec<Value> = acquires.query(&mut connection).expect("grants");
                for (number, grant) in grants.into_iter().enumerate() {
                    let [_, mut release] = Way::Module.pair(&format!("lock:{number}"));
                    let token = grant.grant().token;
                    release.arg("TOKEN").arg(token);
                    add_session(&mut release);
                    releases.add_command(release);
                }
                let _: Vec<i64> = releases.query(&mut connection).expect("releases");
            }
            Ok(())
        })
    };
    Ok(each(BATCHES, run)? / u64::from(BATCH))
}

/// The options of valgrind, and the file that they name.
fn options(name: &str) -> ([String; 2], PathBuf) {
    let file = target_folder().join(format!("callgrind.{name}"));
    let out = format!("--callgrind-out-file={}", file.display());
    (["--tool=callgrind".to_owned(), out], file)
}

/// The sum that callgrind writes at the end of its file.
fn counted(file: &Path) -> Result<u64, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let sum = text.lines().rev().find_map(|line| {
        let sum = line.strip_prefix("totals:");
        sum.or_else(|| line.strip_prefix("summary:"))
    });
    sum.and_then(|sum| sum.trim().parse().ok())
        .ok_or_else(|| format!("{} has no sum", file.display()))
}
