//! What is sent: commands by their grammar, with values that are wrong now and then.

use crate::values::Values;
use redis::Cmd;
use testbed::traffic::words;

const PX: &str = "PX";
const EX: &str = "ex";
const HOLDS: &str = "HOLDS";
const TOKEN: &str = "token";
const RAISE: &str = "RAISE";
const BLOCK: &str = "BLOCK";
const QUEUE: &str = "queue";
const ALL: &str = "ALL";
const SESSION: &str = "Session";
pub(crate) const LEASES: [i64; 6] = [1, 5, 50, 30_000, 600_000, 315_360_000_000];
pub(crate) const COUNTS: [i64; 6] = [0, 1, 2, 3, 4, 2_147_483_647];
const DATABASES: [i64; 4] = [0, 1, 2, 99];
const SECONDS_OF_A_CLOCK: [i64; 3] = [0, 1, 4_000_000_000];

/// At least so many commands.
pub(crate) fn commands(values: &mut Values, count: usize) -> Vec<Cmd> {
    let mut commands = Vec::new();
    while commands.len() < count {
        match values.below(40) {
            0..24 => commands.push(lock_command(values, true)),
            24..28 => commands.push(scrambled(values)),
            28 => {
                // Beside the stray MULTI and EXEC, one that comes to its end.
                commands.push(redis::cmd("MULTI"));
                for _ in 0..values.below(6) {
                    commands.push(lock_command(values, false));
                }
                commands.push(redis::cmd("EXEC"));
            }
            _ => commands.push(other_command(values)),
        }
    }
    commands
}

/// A `LOCK.*` command in its own grammar. Only where none is possible may `BLOCK` ask for a long
/// wait.
fn lock_command(values: &mut Values, may_wait: bool) -> Cmd {
    let key = values.key();
    let name = values.word_of(
        "LOCK.ACQUIRE LOCK.ACQUIRE LOCK.ACQUIRE lock.release LOCK.RELEASE LOCK.RENEW LOCK.RENEW LOCK.FENCE \
         LOCK.INFO LOCK.WAITERS LOCK.HOTKEYS LOCK.SESSION LOCK.SESSION LOCK._APPLY Lock._Clock",
    );
    let mut command = redis::cmd(name);
    match name {
        "LOCK.INFO" => {
            command.arg(key);
        }
        "LOCK.WAITERS" => {
            command.arg(key);
            if values.one_in(2) {
                command.arg("COUNT").arg(values.number(&COUNTS));
            }
        }
        "LOCK.HOTKEYS" => {
            if values.one_in(2) {
                command.arg("COUNT").arg(values.number(&COUNTS));
            }
        }
        "LOCK.SESSION" => session_command(values, &mut command),
        "LOCK.FENCE" => {
            command.arg(key);
            if values.one_in(2) {
                command.arg(values.token());
            }
        }
        "Lock._Clock" => {
            command.arg(values.token());
        }
        "LOCK._APPLY" => {
            command.arg(key).arg(values.effect());
        }
        _ => {
            command.arg(key).arg(values.owner());
            for _ in 0..values.below(4) {
                option(values, &mut command, name, may_wait);
            }
        }
    }
    command
}

/// A subcommand. Nobody knows the id of a session that was opened at random, so one is tried that is not: GRANTS of it
/// and the like are refused. What such a session does is tried by `states` and by the tests of sessions.
fn session_command(values: &mut Values, command: &mut Cmd) {
    let subcommand = values.one_of(&["OPEN", "POLL", "GRANTS", "close", "LIST", "KILL", "help"]);
    command.arg(subcommand);
    match subcommand {
        "OPEN" => {
            if values.one_in(2) {
                let timeout = values.number(&[999, 1000, 5000, 86_400_000]);
                command.arg("TIMEOUT").arg(timeout);
            }
            if values.one_in(2) {
                command.arg("NAME").arg(values.word());
            }
        }
        "LIST" | "help" => {}
        _ => {
            command.arg(values.token());
        }
    }
    if values.one_in(4) {
        let option = values.one_of(&["COUNT", BLOCK, "TIMEOUT"]);
        command
            .arg(option)
            .arg(values.one_of(&["1", "3", "-1", "x"]));
    }
}

/// An option that the command has, most of the time.
fn option(values: &mut Values, command: &mut Cmd, name: &str, may_wait: bool) {
    let own = match name {
        "LOCK.ACQUIRE" => &[PX, PX, EX, HOLDS, TOKEN, BLOCK, QUEUE, SESSION][..],
        "LOCK.RENEW" => &[PX, EX, TOKEN, RAISE, RAISE, SESSION],
        _ => &[HOLDS, ALL, TOKEN, SESSION],
    };
    let option = match values.below(8) {
        0 => values.one_of(&[PX, EX, HOLDS, TOKEN, RAISE, BLOCK, QUEUE, ALL, "WORD"]),
        _ => values.one_of(own),
    };
    match option {
        PX => command.arg(PX).arg(values.number(&LEASES)),
        EX => command.arg(EX).arg(values.number(&[1, 60, 315_360_000])),
        HOLDS => command.arg(HOLDS).arg(values.number(&COUNTS)),
        TOKEN => command.arg(TOKEN).arg(values.token()),
        RAISE => {
            command.arg(TOKEN).arg(values.token());
            command.arg(RAISE).arg(values.token())
        }
        ALL => command.arg(ALL),
        SESSION => command.arg(SESSION).arg(values.token()),
        BLOCK if may_wait => {
            let wait = values.one_of(&["1", "3", "10", "20", "-1", "x"]);
            command.arg(BLOCK).arg(wait)
        }
        BLOCK => command.arg(BLOCK).arg(values.number(&[0, 1, 100_000])),
        // With what it needs, most of the time.
        QUEUE => {
            command.arg(QUEUE).arg(values.number(&[0, 1, 100_000]));
            if !values.one_in(4) {
                command.arg(HOLDS).arg(values.number(&COUNTS));
                command.arg(SESSION).arg(values.token());
            }
            command
        }
        _ => command.arg(values.word()),
    };
}

/// A `LOCK.*` command with any words behind it, any number of them.
fn scrambled(values: &mut Values) -> Cmd {
    let mut command = redis::cmd(values.word_of(
        "LOCK.ACQUIRE LOCK.RELEASE LOCK.RENEW LOCK.FENCE LOCK.INFO LOCK._APPLY LOCK._CLOCK LOCK.WAITERS \
         LOCK.HOTKEYS LOCK.SESSION LOCK. LOCK.ACQUIRE\0",
    ));
    for _ in 0..values.below(9) {
        let word = match values.below(4) {
            0 => values.key(),
            1 => values.token(),
            _ => values.word(),
        };
        command.arg(word);
    }
    command
}

fn other_command(values: &mut Values) -> Cmd {
    let (key, other) = (values.key(), values.key());
    let with = |name: &str, arguments: &[Vec<u8>]| {
        let mut command = redis::cmd(name);
        command.arg(&key).arg(arguments);
        command
    };
    let of = |name: &str| redis::cmd(name);
    match values.below(34) {
        0 => with("SET", &[values.word()]),
        1 => with("DEL", &[]),
        2 => with("UNLINK", &[other]),
        3 => with("PEXPIRE", &[values.number(&LEASES)]),
        4 => with("EXPIRE", &[values.number(&[-1, 1, 1000])]),
        5 => with("EXPIREAT", &[values.number(&SECONDS_OF_A_CLOCK)]),
        6 => with("PERSIST", &[]),
        7 => with("RENAME", &[other]),
        8 => with("RENAMENX", &[other]),
        9 => with("MOVE", &[values.number(&DATABASES)]),
        10 => with("COPY", &[other, b"REPLACE".to_vec()]),
        11 | 12 => with("DUMP", &[]),
        13 | 14 => {
            let (payload, ttl) = (values.payload(), values.number(&[0, 1, 60_000]));
            with("RESTORE", &[ttl, payload, values.word()])
        }
        15 => {
            let (payload, ttl) = (values.payload(), values.number(&[0, 60_000]));
            with("RESTORE", &[ttl, payload, b"REPLACE".to_vec()])
        }
        16 => of("MULTI"),
        17 | 18 => of("EXEC"),
        19 => of(values.one_of(&["DISCARD", "UNWATCH"])),
        20 => with("WATCH", &[]),
        21 | 22 => of("SELECT").arg(values.number(&DATABASES)).to_owned(),
        23 => {
            let mut command = of("SWAPDB");
            command
                .arg(values.number(&DATABASES))
                .arg(values.number(&DATABASES));
            command
        }
        24 if values.one_in(4) => of(values.one_of(&["FLUSHDB", "FLUSHALL"]))
            .arg("ASYNC")
            .to_owned(),
        24 => with("TYPE", &[]),
        25 => with("TOUCH", &[]),
        26 => of("MEMORY").arg("USAGE").arg(&key).to_owned(),
        27 => of("DEBUG").arg("DIGEST-VALUE").arg(&key).to_owned(),
        28 => of("OBJECT").arg("ENCODING").arg(&key).to_owned(),
        29 => {
            let name = values.word_of("default-lease-ms max-lease-ms max-token-lead-ms max-queued");
            let mut command = of("CONFIG");
            command.arg("SET").arg(format!("lock.{name}"));
            command.arg(values.number(&[1, 1000, 86_400_000, 315_360_000_000]));
            command
        }
        30 => of("SCAN").arg(0).arg("TYPE").arg("RedisLock").to_owned(),
        _ => script(values),
    }
}

fn script(values: &mut Values) -> Cmd {
    let name = values.one_of(&["EVAL", "EVAL", "EVAL_RO"]);
    let mut eval = redis::cmd(name);
    let call = values.one_of(&["call", "pcall"]);
    eval.arg(format!("return redis.{call}(unpack(ARGV))"))
        .arg(0);
    let command = lock_command(values, false);
    for word in words(&command) {
        eval.arg(word);
    }
    eval
}
