//! Leases that the server renews for sessions: what that costs, and how soon a crash is over.

use std::slice;
use std::thread;
use std::time::{Duration, Instant};

use testbed::{Expect, Server, Talk, cmd, post, waiters, within};

use crate::contenders::{Languages, Task, Team, languages};
use crate::part::{Goal, Limit::AtMost, Part, Scale};
use crate::servers::{
    Program, Setting, clients_allowed, cpu_of, for_each, longest_ping_while, started,
};
use crate::session::Session;
use crate::stats::Rounds;
use crate::table::Table;
use crate::ways::{LEASE_MS, OWNER, call};

/// The lease of a lock whose holder crashes.
const SHORT_LEASE_MS: u32 = 2_000;
/// The lease of Redisson's watchdog, as it ships.
const WATCHDOG_MS: u32 = 30_000;
const PATIENCE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const GRANTS: usize = 100_000;
/// All are renewed once in this time.
const THIRD: Duration = Duration::from_millis(LEASE_MS as u64 / 3);

/// The measured settings: so many grants of so many sessions, with or without a file and a replica.
const KINDS: [(usize, usize, bool); 5] = [
    (0, 10_000, false),
    (GRANTS, 1, false),
    (GRANTS, 10_000, false),
    (GRANTS, 1, true),
    (GRANTS, 10_000, true),
];

/// All parts on each server; the goals are those of the first.
pub(crate) fn measure(programs: &[Program], scale: Scale) -> Part {
    let languages = languages(&["rust", "java"]);
    Part::of_each(programs, |program| {
        renewals(program).and(crashes(program, &languages, scale))
    })
}

/// A hundred thousand grants, in one session and in ten thousand.
fn renewals(program: &Program) -> Part {
    let seconds = THIRD.as_secs();
    let mut table = Table::of(
        program,
        "Grants of a session with leases of 30 s",
        &format!(
            "What do the server's renewals cost? (They save programs a timer.) Each grant is renewed every 10 s. All \
             grants of a session are acquired in one pipeline, so their renewals coincide. The percentage of a core \
             is that of the server's main thread in 10 s without any command from a client. Then for {seconds} s \
             another client sends a PING every 5 ms: the figures are the longest PING, and the most CPU that the \
             server spent between a PING and its reply."
        ),
        &[
            "% of a core",
            "renewals/s",
            "us a renewal",
            "longest PING ms",
            "server's part ms",
        ],
    );
    let mut goals = Vec::new();
    // As many sessions as connections may be open here.
    let allowed = clients_allowed();
    for (row, (grants, sessions, is_written)) in KINDS.into_iter().enumerate() {
        let count = sessions.min(allowed);
        let plural = if count == 1 { "" } else { "s" };
        let written = if is_written {
            ", AOF everysec and a replica"
        } else {
            ""
        };
        let name = format!("{grants} grants of {count} session{plural}{written}");
        table.once(&name, &renewals_of(program, grants, count, is_written));
        if grants > 0 && !is_written {
            let cpu = format!("{name}: CPU of a core");
            let longest = format!("{name}: longest PING, ms");
            goals.push(Goal::new(
                cpu,
                AtMost(0.05),
                table.figure(row, PART_OF_A_CORE),
            ));
            goals.push(Goal::new(longest, AtMost(5.0), table.figure(row, 3)));
        }
    }
    Part::new(table, goals)
}

/// The number of the figure that is in no column.
const PART_OF_A_CORE: usize = 5;

fn renewals_of(program: &Program, grants: usize, count: usize, is_written: bool) -> [f64; 6] {
    let setting = if is_written {
        Setting::AppendOnly
    } else {
        Setting::Plain
    };
    let server = started(setting.of(program.builder_for(count)));
    let _replica = is_written.then(|| Setting::Replica.replica_of(&server, program));
    let mut sessions: Vec<Session> = (0..count).map(|_| Session::open(&server)).collect();
    let each = grants / count;
    for (index, session) in sessions.iter_mut().enumerate() {
        let id = session.id;
        let numbers = index * each..(index + 1) * each;
        for_each(&mut session.connection, numbers, |number| {
            call!("LOCK.ACQUIRE lock:{number:07} {OWNER} PX {LEASE_MS} SESSION {id}")
        });
    }
    // The renewals of those that were taken together fall into the middle of each third from now on.
    thread::sleep(THIRD / 2);
    let renewed = || server.count("session_renewals") as f64;
    let before = renewed();
    let spent = cpu_of(&server, || thread::sleep(THIRD));
    let renewals = renewed() - before;
    let longest = longest_ping_while(&server, || thread::sleep(THIRD));
    let held = server.count("session_grants") as usize;
    assert_eq!(held, count * each, "held to the end");
    let seconds = THIRD.as_secs_f64();
    let part = spent / 1e9 / seconds;
    [
        100.0 * part,
        renewals / seconds,
        spent / 1000.0 / renewals,
        longest.time,
        longest.server,
        part,
    ]
}

/// From the crash of a holder until another client can have its lock, beside Redisson's watchdog.
fn crashes(program: &Program, languages: &Languages, scale: Scale) -> Part {
    let [crashes, watchdog_crashes] = [scale.of(10, 40), scale.of(3, 10)];
    let mut about = format!(
        "How long do others wait after a crash? They wait for one lease, which can be short because the server \
         renews it. Processes are killed (kill -9) at moments spread over the time between two renewals. {crashes} \
         of them have a lease of {SHORT_LEASE_MS} ms, and the time ends with the next client's grant.",
    );
    if languages["java"].is_ok() {
        let theirs = format!(
            " {watchdog_crashes} have a lock of Redisson, whose watchdog renews its default lease of {WATCHDOG_MS} \
             ms, and the time ends when the key is gone.",
        );
        about.push_str(&theirs);
    }
    let mut table = Table::of(
        program,
        "From a crash until another can have the lock, which the server renews for a session",
        &about,
        &["min s", "median s", "max s"],
    );
    // Redisson's watchdog renews a lock without a lease.
    let ours = Task {
        held_ms: HOUR.as_millis() as u32,
        lease_ms: SHORT_LEASE_MS,
        ..Task::ALONE
    };
    let theirs = Task {
        language: "java",
        way: "rlock",
        lease_ms: 0,
        ..ours
    };
    let rows = [
        ("LOCK.ACQUIRE SESSION", ours, SHORT_LEASE_MS, crashes),
        ("Redisson: RLock", theirs, WATCHDOG_MS, watchdog_crashes),
    ];
    for (name, task, lease_ms, crashes) in rows {
        let seconds = all(program, languages, task, lease_ms, crashes);
        table.row(
            name,
            0,
            seconds.map(|seconds| seconds.map(Rounds::from).into()),
        );
    }
    let what = "longest time from a crash to the next grant, lease of 2 s, s";
    let goal = Goal::new(what, AtMost(2.1), table.figure(0, 2));
    Part::new(table, [goal])
}

/// The minimum, median and maximum seconds of so many crashes, at every moment between two renewals.
fn all(
    program: &Program,
    languages: &Languages,
    task: Task<'_>,
    lease_ms: u32,
    crashes: usize,
) -> Result<[f64; 3], String> {
    let server = &program.start();
    let seconds: Vec<_> = thread::scope(|scope| {
        let crashes: Vec<_> = (0..crashes)
            .map(|number| {
                let after = number as f64 / crashes as f64 * f64::from(lease_ms) / 3000.0;
                scope.spawn(move || {
                    let key = format!("crash-{number}");
                    let task = Task { key: &key, ..task };
                    let holder = Team::start(languages, 1, slice::from_ref(server), &task)?;
                    crash(server, &format!("{key}:0"), holder, 1.0 + after)
                })
            })
            .collect();
        let crashes = crashes.into_iter();
        crashes
            .map(|crash| crash.join().expect("a crash"))
            .collect::<Result<_, String>>()
    })?;
    let seconds = seconds.into_iter().fold(Rounds::default(), |mut all, one| {
        all.push(one);
        all
    });
    let spread = seconds.spread().ok_or("no crash")?;
    Ok([spread.low, spread.median, spread.high])
}

/// The seconds from the kill until another can have the lock.
fn crash(server: &Server, key: &str, holder: Team, held_for: f64) -> Result<f64, String> {
    holder.begin(HOUR.as_secs_f64())?;
    let mut other = server.connection();
    let held = || cmd!(other, "EXISTS", key).int() == 1;
    within(PATIENCE, held, "a holder");
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
        let free = || cmd!(other, "EXISTS", key).int() == 0;
        within(PATIENCE, free, "its end");
    }
    Ok(start.elapsed().as_secs_f64())
}
