//! The instructions of a pair and of a hand-off. These counts hardly differ between runs, so they show the
//! cost of a change to the code on a machine that is too busy to measure times.
//!
//! `benches/instructions.toml` has the counts of the last change. The check fails when one has grown by more
//! than its tolerance, until the new counts are kept on purpose.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use testbed::module::root;
use testbed::{Expect, Server, Talk, cmd, eventually, waiters};

use crate::callgrind::{each, held_pair, need_valgrind, of_program, of_server, pair};
use crate::facts::{output, target_folder};
use crate::servers::{Program, Setting};
use crate::session::{Session, post_all, queue, release};
use crate::stats::Rounds;
use crate::table::Table;
use crate::ways::{Passed, Way};

/// The server's cron runs by the clock, so counts differ by up to this.
const TOLERANCE: f64 = 0.03;
/// On a busy machine a hand-off takes more or fewer iterations of the server's event loop.
const TOLERANCE_OF_HAND_OFF: f64 = 0.08;
const CORE_PAIRS: u32 = 20_000;
const RING: usize = 65;
const PATIENCE: Duration = Duration::from_secs(60);
const HAND_OFFS: u32 = 3_000;

/// The counts, and the tools that they hold for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counts {
    rustc: String,
    server: String,
    architecture: String,
    #[serde(flatten)]
    figures: BTreeMap<String, u64>,
}

/// A count: its name in the file, its name in the table, by how much it may grow, and the function that counts.
type Counted = (
    &'static str,
    &'static str,
    f64,
    fn(&Program) -> Result<u64, String>,
);

/// A pair is a `LOCK.ACQUIRE PX` and a `LOCK.RELEASE`: reading, running, replying.
#[rustfmt::skip]
const COUNTED: [Counted; 8] = [
    ("core_pair", "core", TOLERANCE, |_| core_pair()),
    ("server_pair", "server", TOLERANCE, |program| pair(program, Setting::Plain, Way::Module)),
    ("server_pair_aof", "with AOF", TOLERANCE, |program| pair(program, Setting::AppendOnly, Way::Module)),
    ("server_pair_replica", "replica", TOLERANCE, |program| pair(program, Setting::Replica, Way::Module)),
    ("server_pair_held", "held", TOLERANCE, |program| held_pair(program, false)),
    ("server_pair_session", "session", TOLERANCE, |program| held_pair(program, true)),
    ("server_hand_off", "hand-off", TOLERANCE_OF_HAND_OFF, server_hand_off),
    ("server_hand_off_queued", "queued", TOLERANCE_OF_HAND_OFF, server_hand_off_queued),
];

/// Counts, and compares with the kept counts. The error says which have grown.
pub(crate) fn check(program: &Program) -> Result<String, String> {
    if let Err(why) = need_valgrind() {
        return Ok(format!("instruction counts: left out, because {why}"));
    }
    let kept = Counts::kept()?;
    compare(&kept, &Counts::take(program)?)
}

/// Counts, and keeps the counts.
pub(crate) fn keep(program: &Program) -> Result<String, String> {
    need_valgrind()?;
    let now = Counts::take(program)?;
    let figures = toml::to_string(&now).map_err(|error| error.to_string())?;
    let text = format!(
        "# Instructions of one uncontended pair and of one hand-off, as last measured on purpose:\n\
         # make bench-keep writes this file, make bench-check holds new counts against it.\n\n\
         {figures}"
    );
    fs::write(path(), &text).map_err(|error| error.to_string())?;
    Ok(text)
}

/// The instructions of pairs of plain keys, and those of this module over them.
pub(crate) fn beside_plain_keys(programs: &[Program]) -> Result<String, String> {
    need_valgrind()?;
    let mut text = String::new();
    for program in programs {
        for setting in Setting::ALL {
            let title = format!(
                "Instructions of a pair: {}, {}",
                program.version,
                setting.name()
            );
            let about = "This module's pair, and its ratio to those of plain keys.";
            let mut table = Table::new(title, about, &["instructions", "ours of it"]);
            let ours = pair(program, setting, Way::Module)? as f64;
            table.once(Way::Module.name(), &[ours, 1.0]);
            for way in [Way::SetDel, Way::SetDelifeq] {
                let plain = pair(program, setting, way).map(|plain| plain as f64);
                let figures = plain.map(|plain| [plain, ours / plain].map(Rounds::from).into());
                table.row(way.name(), 0, figures);
            }
            text += &table.text();
        }
    }
    Ok(text)
}

fn path() -> PathBuf {
    root().join("benches/instructions.toml")
}

fn compare(kept: &Counts, now: &Counts) -> Result<String, String> {
    let same_tools = kept.rustc == now.rustc
        && kept.server == now.server
        && kept.architecture == now.architecture;
    let mut lines = vec!["instructions of a pair, and of a hand-off: kept, now, change".to_owned()];
    let mut grown = false;
    let mut fallen = false;
    for (kept_as, name, tolerance, _) in COUNTED {
        let [kept, now] = [kept, now].map(|all| all.figures.get(kept_as).copied().unwrap_or(0));
        let (before, after) = (kept as f64, now as f64);
        grown |= after > before * (1.0 + tolerance);
        fallen |= after < before * (1.0 - tolerance);
        let change = 100.0 * (after / before - 1.0);
        lines.push(format!("  {name:8} {kept:8} {now:8} {change:+7.1} %"));
    }
    if !same_tools {
        lines.push(format!(
            "not judged: kept for rustc {}, {}, {}; here it is rustc {}, {}, {}",
            kept.rustc, kept.server, kept.architecture, now.rustc, now.server, now.architecture
        ));
        return Ok(lines.join("\n"));
    }
    if grown {
        lines.push(format!(
            "FAILED: one has grown by more than {:.0} % (a hand-off by {:.0} %). If that is meant to be: \
             make bench-keep",
            TOLERANCE * 100.0,
            TOLERANCE_OF_HAND_OFF * 100.0
        ));
        return Err(lines.join("\n"));
    }
    if fallen {
        lines.push("one has become cheaper: keep that with make bench-keep".to_owned());
    }
    Ok(lines.join("\n"))
}

impl Counts {
    fn kept() -> Result<Self, String> {
        let path = path();
        let text = fs::read_to_string(&path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Counts; the error says what is missing.
    fn take(program: &Program) -> Result<Self, String> {
        let version = output("rustc", &["--version"]);
        let rustc = version.split(' ').nth(1).unwrap_or("unknown").to_owned();
        let counts = COUNTED.map(|(name, .., count)| Ok((name.to_owned(), count(program)?)));
        Ok(Self {
            rustc,
            server: program.version.clone(),
            architecture: env::consts::ARCH.to_owned(),
            figures: counts.into_iter().collect::<Result<_, String>>()?,
        })
    }
}

/// Acquire, encode, decode and release in the core.
fn core_pair() -> Result<u64, String> {
    let folder = target_folder();
    let target = folder.parent().ok_or("no target folder")?;
    let built = Command::new(env!("CARGO"))
        .args(["build", "--release", "--quiet", "--package", "core-pair"])
        .arg("--target-dir")
        .arg(target)
        .current_dir(root())
        .status();
    if !built.is_ok_and(|status| status.success()) {
        return Err("the core's pair does not build".to_owned());
    }
    let program = target.join("release/core-pair");
    each(CORE_PAIRS, |pairs| of_program(&program, pairs.to_string()))
}

/// A `LOCK.RELEASE` that hands the lock over, the reply of the grant, and the `LOCK.ACQUIRE` with `BLOCK` by which
/// the client joins the queue again. A ring of clients hands over one lock, one hand-off at a time, each from a
/// server that rests. Were it still in its second iteration for the last one, it might do both in one, as the
/// clock has it.
fn server_hand_off(program: &Program) -> Result<u64, String> {
    let ask = |number| Passed::Lock.ask("ring", number);
    let join = |server: &Server| {
        let mut ring: Vec<_> = (0..RING).map(|_| server.connection()).collect();
        for (number, client) in ring.iter_mut().enumerate() {
            client.post(&ask(number));
            if number > 0 {
                // Each waits before the next one joins.
                let waiting = || waiters(&mut server.connection(), "ring").len();
                eventually(|| waiting() == number, "a client to wait");
            }
        }
        ring
    };
    beside_rest(program, join, |server, holder, number| {
        holder.receive().grant();
        rest(server);
        // In one write, and so always in one iteration of the server's event loop.
        post_all(holder, &[Passed::Lock.pass_on("ring", number), ask(number)]);
        holder.receive().int();
    })
}

/// The same of sessions, each with one connection: the event of the grant, and the `LOCK.ACQUIRE` with `QUEUE` and the
/// POLL by which the program waits again.
fn server_hand_off_queued(program: &Program) -> Result<u64, String> {
    let join = |server: &Server| {
        let mut ring: Vec<_> = (0..RING).map(|_| Session::open(server)).collect();
        let mut first = server.connection();
        cmd!(first, "LOCK.ACQUIRE", "ring", "first").grant();
        for (number, session) in ring.iter_mut().enumerate() {
            let owner = format!("client-{number}");
            session.post(&[queue(session.id, "ring", &owner)]);
            assert_eq!(session.connection.receive().int() as usize, number);
        }
        cmd!(first, "LOCK.RELEASE", "ring", "first").int();
        ring
    };
    beside_rest(program, join, |server, session: &mut Session, _| {
        let grant = &session.events()[0];
        rest(server);
        session.post(&[
            release(session.id, grant),
            queue(session.id, &grant.key, &grant.owner),
        ]);
        for _ in 0..2 {
            session.connection.receive().int();
        }
    })
}

/// The instructions of one hand-off: those of a server during hand-offs, less those of a server that rests as long with
/// the same waiting clients, because its cron and the module's ticks run by the clock. The lesser of two such
/// differences. `join` lets the clients of the ring begin to wait. `hand_off` lets the holder, which has the given
/// place in the ring, pass on the lock.
fn beside_rest<C>(
    program: &Program,
    join: impl Fn(&Server) -> Vec<C>,
    hand_off: impl Fn(&Server, &mut C, usize),
) -> Result<u64, String> {
    let count = |hand_offs: u32, rest_for| -> Result<(u64, Duration), String> {
        let mut took = Duration::ZERO;
        let sum = of_server(program, Setting::Plain, |server| {
            let mut ring = join(server);
            let began = Instant::now();
            for number in (0..hand_offs as usize).map(|hand_off| hand_off % RING) {
                hand_off(server, &mut ring[number], number);
            }
            took = began.elapsed();
            thread::sleep(rest_for);
            Ok(())
        })?;
        Ok((sum, took))
    };
    let once = || -> Result<u64, String> {
        let (busy, took) = count(HAND_OFFS, Duration::ZERO)?;
        let (resting, _) = count(0, took)?;
        Ok(busy.saturating_sub(resting) / u64::from(HAND_OFFS))
    };
    Ok(once()?.min(once()?))
}

/// Waits until the main thread sleeps, and looks often: the longer this takes, the more of the module's ticks
/// are counted too. A thread's state is what follows its name, which stands in brackets.
fn rest(server: &Server) {
    let stat = format!("/proc/{0}/task/{0}/stat", server.pid());
    let asleep = || {
        let text = fs::read_to_string(&stat).unwrap_or_default();
        text.rsplit_once(')')
            .is_none_or(|(_, state)| state.starts_with(" S"))
    };
    let began = Instant::now();
    while !asleep() {
        assert!(
            began.elapsed() < PATIENCE,
            "the server does not come to rest"
        );
        thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(core_pair: u64, server_pair: u64, hand_off: u64) -> Counts {
        let count = |name: &str| match name {
            "core_pair" => core_pair,
            "server_hand_off" | "server_hand_off_queued" => hand_off,
            _ => server_pair,
        };
        Counts {
            rustc: "1.95.0".to_owned(),
            server: "Redis 7.0.15".to_owned(),
            architecture: "x86_64".to_owned(),
            figures: COUNTED
                .map(|(name, ..)| (name.to_owned(), count(name)))
                .into(),
        }
    }

    #[test]
    fn growth_beyond_the_tolerance_fails() {
        let kept = counts(100, 10_000, 30_000);
        let verdict = |core, server| compare(&kept, &counts(core, server, 30_000));
        assert!(verdict(100, 10_000).is_ok());
        assert!(verdict(103, 10_300).is_ok());
        assert!(verdict(104, 10_000).is_err());
        assert!(verdict(100, 10_301).is_err());
        assert!(verdict(50, 5_000).is_ok());
        let hand_off = compare(&kept, &counts(100, 10_000, 33_000));
        assert!(hand_off.is_err());
    }

    #[test]
    fn figures_of_other_tools_are_not_judged() {
        let kept = counts(100, 10_000, 30_000);
        let mut now = counts(200, 20_000, 60_000);
        now.server = "Valkey 9.1.2".to_owned();
        let text = compare(&kept, &now).unwrap();
        assert!(text.contains("not judged"), "{text}");
    }

    #[test]
    fn the_kept_figures_can_be_read() {
        let kept = Counts::kept().unwrap().figures;
        assert!(COUNTED.iter().all(|(name, ..)| kept.contains_key(*name)));
    }
}
