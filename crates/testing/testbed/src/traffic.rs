//! Traffic of a fleet of clients and an administrator: random commands on a few locks.

use super::talk::{Expect, Reply, Talk};
use super::{Grant, Server};
use crate::cmd;
use rand::rngs::{StdRng, SysRng};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng, TryRng};
use redis::{Arg, Cmd, Connection, Value};
use std::collections::HashMap;
use std::env;

const KEYS: [&[u8]; 12] = [
    b"",
    b"a",
    b"b",
    b"c",
    b"d",
    b"e",
    b"f",
    b"{x}1",
    b"{x}2",
    b"nul\0",
    b"\xff\r\n",
    b"%s%n",
];
const OWNERS: [&[u8]; 5] = [b"ann", b"bob", b"\0\xff\r\n", b"%n", &[b'o'; 256]];
const DATABASES: i64 = 3;

/// Calls each of its arguments, given as a count and so many words, and returns what they reply.
const CALL_EACH: &str = "
    local replies, at = {}, 1
    while at <= #ARGV do
        local words, count = {}, tonumber(ARGV[at])
        for i = 1, count do words[i] = ARGV[at + i] end
        replies[#replies + 1] = redis.pcall(unpack(words))
        at = at + count + 1
    end
    return replies";

/// The seed of the environment variable `SEED`, or a new one. It is printed, so that the choices of a failed test can
/// be repeated.
pub fn seed() -> u64 {
    let seed = match env::var("SEED") {
        Ok(seed) => seed.parse().expect("a seed is a number"),
        Err(_) => SysRng.try_next_u64().expect("the system's random bytes"),
    };
    println!("SEED={seed}");
    seed
}

/// A client with a memory, on a connection of its own.
pub struct Traffic {
    connection: Connection,
    random: StdRng,
    /// The last token that was replied for each key.
    tokens: HashMap<Vec<u8>, i64>,
    dump: Option<Vec<u8>>,
    highest: i64,
    grants: usize,
}

impl Traffic {
    /// Traffic for this server, its choices repeated by `SEED`.
    #[track_caller]
    pub fn on(server: &Server) -> Self {
        Self {
            connection: server.connection(),
            random: StdRng::seed_from_u64(seed()),
            tokens: HashMap::new(),
            dump: None,
            highest: 0,
            grants: 0,
        }
    }

    /// Continues with a server that is new or was restarted.
    #[track_caller]
    pub fn move_to(&mut self, server: &Server) {
        self.connection = server.connection();
    }

    /// The highest token that was replied.
    pub fn highest(&self) -> i64 {
        self.highest
    }

    /// How many calls replied a grant.
    pub fn grants(&self) -> usize {
        self.grants
    }

    /// Sends so many times a command, a transaction or a script, each after the last was answered.
    #[track_caller]
    pub fn run(&mut self, count: usize) {
        for _ in 0..count {
            match self.random.random_range(0..10) {
                0 => self.transaction(),
                1 => self.script(),
                _ => {
                    let command = self.command();
                    let reply = self.connection.send(&command);
                    self.learn(&command, reply);
                }
            }
        }
    }

    fn transaction(&mut self) {
        let commands = self.some_commands();
        cmd!(self.connection, "MULTI").okay();
        for command in &commands {
            assert_eq!(self.connection.send(command).text(), "QUEUED");
        }
        let replies = cmd!(self.connection, "EXEC").items();
        self.learn_all(&commands, replies);
    }

    fn script(&mut self) {
        let commands = self.some_commands();
        let mut eval = redis::cmd("EVAL");
        eval.arg(CALL_EACH).arg(0);
        for command in &commands {
            eval.arg(command.args_iter().count());
            for word in words(command) {
                eval.arg(word);
            }
        }
        let replies = self.connection.send(&eval).items();
        self.learn_all(&commands, replies);
    }

    fn some_commands(&mut self) -> Vec<Cmd> {
        let count = self.random.random_range(1..=5);
        (0..count).map(|_| self.command()).collect()
    }

    fn learn_all(&mut self, commands: &[Cmd], replies: Vec<Value>) {
        assert_eq!(commands.len(), replies.len(), "one reply for each command");
        for (command, reply) in commands.iter().zip(replies) {
            self.learn(command, reply.reply());
        }
    }

    #[track_caller]
    fn learn(&mut self, command: &Cmd, reply: Reply) {
        match reply {
            Ok(Value::BulkString(bytes)) if words(command).next() == Some(b"DUMP") => {
                self.dump = Some(bytes);
            }
            Ok(value) => {
                if let Ok(grant) = Grant::try_from(value) {
                    let key = words(command).nth(1).expect("a key");
                    self.tokens.insert(key.to_vec(), grant.token);
                    self.highest = self.highest.max(grant.token);
                    self.grants += 1;
                }
            }
            Err(refusal) => {
                let known = [
                    "NOTHELD",
                    "NOTOWNER",
                    "FENCED",
                    "AHEAD",
                    "WRONGTYPE",
                    "ERR",
                    "BUSYKEY",
                    "DEADLOCK",
                ];
                assert!(known.contains(&refusal.code()), "{refusal}");
            }
        }
    }

    fn command(&mut self) -> Cmd {
        match self.random.random_range(0..100) {
            0..30 => self.acquire(),
            30..45 => self.renew(),
            45..65 => self.release(),
            65..70 => self.look(),
            70..99 => self.administer(),
            _ => self.clear(),
        }
    }

    fn acquire(&mut self) -> Cmd {
        let key = self.key();
        let mut command = redis::cmd("LOCK.ACQUIRE");
        if self.random.random_ratio(1, 8) {
            command.arg(key).arg("*");
            self.lease(&mut command);
            return command;
        }
        command.arg(key).arg(self.owner());
        self.lease(&mut command);
        if self.random.random_ratio(1, 4) {
            command.arg("HOLDS").arg(self.random.random_range(1..=3));
        }
        if self.random.random_ratio(1, 6) {
            command.arg("BLOCK").arg(self.random.random_range(1..15));
        }
        self.token(&mut command, key, 8);
        command
    }

    fn renew(&mut self) -> Cmd {
        let (key, owner) = (self.key(), self.owner());
        let mut command = redis::cmd("LOCK.RENEW");
        command.arg(key).arg(owner);
        self.lease(&mut command);
        if let Some(&token) = self.tokens.get(key)
            && self.random.random_ratio(1, 2)
        {
            // Up to six seconds: mostly within the lead that is allowed.
            let raise = token + self.random.random_range(0..6_000_000);
            command.arg("TOKEN").arg(token).arg("RAISE").arg(raise);
        } else {
            self.token(&mut command, key, 3);
        }
        command
    }

    fn release(&mut self) -> Cmd {
        let (key, owner) = (self.key(), self.owner());
        let mut command = redis::cmd("LOCK.RELEASE");
        command.arg(key).arg(owner);
        match self.random.random_range(0..4) {
            0 => command.arg("ALL"),
            1 => command.arg("HOLDS").arg(self.random.random_range(0..3)),
            _ => &mut command,
        };
        self.token(&mut command, key, 4);
        command
    }

    fn look(&mut self) -> Cmd {
        let key = self.key();
        let name = ["LOCK.INFO", "LOCK.FENCE", "DUMP", "PTTL"]
            .choose(&mut self.random)
            .expect("names");
        let mut command = redis::cmd(name);
        command.arg(key);
        if *name == "LOCK.FENCE" && self.random.random_ratio(1, 2) {
            command.arg(self.tokens.get(key).copied().unwrap_or(1));
        }
        command
    }

    /// An administrator's commands on keys of any type.
    fn administer(&mut self) -> Cmd {
        let (key, other) = (self.key(), self.key());
        let command = |name: &str| redis::cmd(name).arg(key).to_owned();
        let with = |name: &str, argument: i64| redis::cmd(name).arg(key).arg(argument).to_owned();
        match self.random.random_range(0..14) {
            0 => with("PEXPIRE", self.random.random_range(60_000..900_000)),
            1 => with("PEXPIRE", self.random.random_range(1..40)),
            2 => with("PEXPIREAT", 1),
            3 => command("PERSIST"),
            4 => command("DEL"),
            5 => command("UNLINK"),
            6 => redis::cmd("RENAME").arg(key).arg(other).to_owned(),
            7 => redis::cmd("RENAMENX").arg(key).arg(other).to_owned(),
            8 => with("MOVE", self.random.random_range(0..DATABASES)),
            9 => with("SET", 1),
            10 => redis::cmd("COPY").arg(key).arg(other).to_owned(),
            11 => match &self.dump {
                Some(dump) => {
                    let mut restore = redis::cmd("RESTORE");
                    restore
                        .arg(key)
                        .arg(self.random.random_range(0..2) * 700_000);
                    restore.arg(dump).arg("REPLACE");
                    restore
                }
                None => command("DUMP"),
            },
            _ => redis::cmd("SELECT")
                .arg(self.random.random_range(0..DATABASES))
                .to_owned(),
        }
    }

    fn clear(&mut self) -> Cmd {
        if self.random.random_ratio(1, 2) {
            return redis::cmd("FLUSHDB");
        }
        let mut numbers = || self.random.random_range(0..DATABASES);
        redis::cmd("SWAPDB")
            .arg(numbers())
            .arg(numbers())
            .to_owned()
    }

    /// A lease that has ended before the test has, or one that outlives it.
    fn lease(&mut self, command: &mut Cmd) {
        match self.random.random_range(0..5) {
            0 => command.arg("PX").arg(self.random.random_range(1..40)),
            1 => command.arg("EX").arg(self.random.random_range(60..900)),
            2 => command.arg("PX").arg(20_000_000_000_i64),
            _ => command
                .arg("PX")
                .arg(self.random.random_range(60_000..900_000)),
        };
    }

    /// A token, one time in so many: what this client remembers of the key, which may be old.
    fn token(&mut self, command: &mut Cmd, key: &[u8], one_in: u32) {
        if self.random.random_ratio(1, one_in) {
            let token = self.tokens.get(key).copied().unwrap_or(1);
            command.arg("TOKEN").arg(token);
        }
    }

    fn key(&mut self) -> &'static [u8] {
        KEYS.choose(&mut self.random).expect("keys")
    }

    fn owner(&mut self) -> &'static [u8] {
        OWNERS.choose(&mut self.random).expect("owners")
    }
}

/// The words of a command.
pub fn words(command: &Cmd) -> impl Iterator<Item = &[u8]> {
    command.args_iter().map(|word| match word {
        Arg::Simple(bytes) => bytes,
        _ => panic!("only plain words"),
    })
}
