//! From the crash of a holder until another client can have its lock, beside Redisson's watchdog.

use std::io::stdin;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use testbed::{Expect, Server, Talk, cmd, post, waiters, within};

use super::acquire;
use crate::part::{Goal, Part};
use crate::process::Process;
use crate::scale::Scale;
use crate::servers::Program;
use crate::session::open_session;
use crate::stats::{Spread, percentile};
use crate::table::Table;
use crate::toolchains::Language;

/// The argument that starts this program as a holder.
pub(crate) const ROLE: &str = "hold-a-lock-in-a-session";

const LEASE_MS: u32 = 2_000;
/// The lease of Redisson's watchdog, as it ships.
const WATCHDOG_MS: u32 = 30_000;
const PATIENCE: Duration = Duration::from_secs(60);

/// Holds a lock of the server at this port in a session until its input ends or it is killed.
pub(crate) fn hold(port: &str, key: &str) -> ExitCode {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}/"));
    let Ok(mut connection) = client.and_then(|client| client.get_connection()) else {
        return ExitCode::FAILURE;
    };
    let session = open_session(&mut connection);
    let grant = connection.send(&acquire(session, key, "holder", LEASE_MS));
    println!("{}", grant.grant().token);
    for _ in stdin().lines() {}
    ExitCode::SUCCESS
}

pub(super) fn measure(program: &Program, java: &Result<Language, String>, scale: &Scale) -> Part {
    let own = Language::own(ROLE).expect("this program");
    let ours = all(program, scale.crashes, LEASE_MS, &own, &[]);
    let mut about = format!(
        "How long others wait after a crash: a lease, which is short because the server renews it. Processes are killed (kill -9) at moments spread over the time between two renewals. {} have a lease of \
         {LEASE_MS} ms each, and it ends with the next client's grant.",
        scale.crashes
    );
    if java.is_ok() {
        let theirs = format!(
            " {} have a lock of Redisson, whose watchdog renews its default lease of {WATCHDOG_MS} ms, and it ends \
             when the key is gone.",
            scale.watchdog_crashes
        );
        about.push_str(&theirs);
    }
    let mut table = Table::of(
        program,
        "From a crash until another can have the lock, which the server renews for a session",
        &about,
        &["least s", "median s", "most s"],
    );
    table.row("LOCK.ACQUIRE SESSION", ours.map(Spread::of).to_vec());
    let name = "Redisson: RLock";
    match java {
        Ok(java) => {
            let crashes = scale.watchdog_crashes;
            let theirs = all(program, crashes, WATCHDOG_MS, java, &["watchdog"]);
            table.row(name, theirs.map(Spread::of).to_vec());
        }
        Err(why) => table.left_out(name, why),
    }
    let what = "s from a crash to the next grant, lease of 2 s, most";
    Part::new(table, vec![Goal::at_most(what, 2.1, Spread::of(ours[2]))])
}

/// The least, the median and the most seconds of so many crashes, at every moment between two renewals.
fn all(
    program: &Program,
    crashes: usize,
    lease_ms: u32,
    language: &Language,
    words: &[&str],
) -> [f64; 3] {
    let server = &program.start();
    let mut seconds: Vec<f64> = thread::scope(|scope| {
        let crashes: Vec<_> = (0..crashes)
            .map(|number| {
                let after = number as f64 / crashes as f64 * f64::from(lease_ms) / 3000.0;
                scope.spawn(move || {
                    let key = format!("lock:{number}");
                    let mut holder = language.command();
                    holder.args(words).arg(server.port().to_string()).arg(&key);
                    crash(server, &key, holder, 1.0 + after)
                })
            })
            .collect();
        let crashes = crashes.into_iter();
        crashes
            .map(|crash| crash.join().expect("a crash"))
            .collect()
    });
    seconds.sort_by(f64::total_cmp);
    [0.0, 0.5, 1.0].map(|part| percentile(&seconds, part))
}

/// The seconds from the kill until another can have the lock.
fn crash(server: &Server, key: &str, mut command: Command, held_for: f64) -> f64 {
    let holder = Process::start(&mut command, key).expect("a holder");
    holder.receive(PATIENCE).expect("that it has the lock");
    let mut other = server.connection();
    let ours = cmd!(other, "TYPE", key).text() == "RedisLock";
    let mut next = server.connection();
    if ours {
        post!(next, "LOCK.ACQUIRE", key, "next", "BLOCK", 0);
    }
    thread::sleep(Duration::from_secs_f64(held_for));
    if ours {
        assert_eq!(waiters(&mut other, key).len(), 1, "it is held");
    }
    let start = Instant::now();
    drop(holder);
    if ours {
        next.receive().grant();
    } else {
        within(
            PATIENCE,
            || cmd!(other, "EXISTS", key).int() == 0,
            "its end",
        );
    }
    start.elapsed().as_secs_f64()
}
