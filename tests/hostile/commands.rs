//! Random commands on a few keys of a few databases.

use crate::grammar::commands;
use crate::invariants::{
    check_grant, check_hot_key, check_info, check_log, check_server, check_waiter,
};
use crate::resp::Answer;
use crate::values::{TOKENS, Values};
use crate::wire::Wire;
use crate::*;
use redis::{Cmd, Connection, Value};
use testbed::state::assert_same;
use testbed::traffic::words;
use testbed::{Grant, LockInfo};

const BATCH: usize = 120;
const CALLERS: usize = 3;
/// How many servers the commands are spread over: a new one has its token space before it.
const SERVERS: usize = 8;
/// The first words of the errors that the contract knows.
const CODES: &str = "ERR WRONGTYPE NOTHELD NOTOWNER FENCED AHEAD MAXWAITERS DEADLOCK NOTALONE \
    NOSESSION MAXSESSIONS UNBLOCKED";

#[test]
fn whatever_is_sent_the_server_stays_up_and_its_locks_stay_sound() {
    let count = amount("HOSTILE_COMMANDS", 3000);
    let mut values = Values::new(seed());
    for round in 0..SERVERS {
        let kind = [Kept::Rdb, Kept::Aof, Kept::Replica, Kept::Rdb][round % 4];
        values.forget();
        values.up_to_the_end = round % 4 == 3;
        let mut server = match kind {
            Kept::Aof => Server::builder()
                .config("appendonly", "yes")
                .config("aof-use-rdb-preamble", "no"),
            Kept::Rdb | Kept::Replica => Server::builder(),
        }
        .start();
        let replica = (kind == Kept::Replica).then(|| server.replica());
        let pid = server.pid();
        let mut attack = Attack::on(&server, &mut values);
        for batch in 0..count.div_ceil(SERVERS * BATCH) {
            attack.send_batch();
            attack.probe(&server);
            if batch % 10 == 0 {
                check_server(&server);
            }
        }
        let last = attack.last;
        check_server(&server);
        let pid_now = server.number("server", "process_id");
        assert_eq!(pid_now, i64::from(pid), "the same process");
        if let Some(replica) = replica {
            check_replica(&server, &replica);
        }
        check_persistence(&mut server, last);
        check_log(&server);
    }
}

/// Where a server's data goes beside its memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    Rdb,
    Aof,
    Replica,
}

fn check_replica(server: &Server, replica: &Server) {
    let state = server.state();
    server.wait_for_sync(replica);
    assert_same(&state, &replica.state(), "the replica");
    check_log(replica);
}

/// What is stored now survives a reload and a restart, and a lock can be taken then.
fn check_persistence(server: &mut Server, last: Option<i64>) {
    let before = server.state();
    cmd!(server.connection(), "DEBUG", "RELOAD").okay();
    assert_same(&before, &server.state(), "after DEBUG RELOAD");
    check_server(server);
    cmd!(server.connection(), "SAVE").okay();
    server.restart();
    assert_same(&before, &server.state(), "after a restart");
    check_server(server);
    let mut c = server.connection();
    cmd!(c, "FLUSHALL").okay();
    let reply = cmd!(c, "LOCK.ACQUIRE", "k", "o", "HOLDS", 1);
    match last {
        Some(last) if server.last_token() < TOKENS - 1 => {
            assert!(reply.grant().token > last, "a token after {last}");
            assert_eq!(cmd!(c, "LOCK.RELEASE", "k", "o").int(), 0);
        }
        Some(_) => {}
        None => drop(reply.refused("ERR")),
    }
}

struct Attack<'a> {
    values: &'a mut Values,
    wires: Vec<Wire>,
    /// An honest client.
    witness: Connection,
    probes: usize,
    /// The token of the last plain grant; none once the tokens are used up.
    last: Option<i64>,
}

impl<'a> Attack<'a> {
    fn on(server: &Server, values: &'a mut Values) -> Self {
        let mut witness = server.connection();
        cmd!(witness, "LOCK._APPLY", "seed", effect("o", 1, 1, 1000, -1)).okay();
        values.remember_dump(cmd!(witness, "DUMP", "seed").bytes());
        Self {
            values,
            wires: (0..CALLERS).map(|_| Wire::to(server)).collect(),
            witness,
            probes: 0,
            last: Some(0),
        }
    }

    /// Each caller sends its part of a batch at once, so that they meet at the locks.
    fn send_batch(&mut self) {
        let parts: Vec<_> = (0..CALLERS)
            .map(|_| commands(self.values, BATCH / CALLERS))
            .collect();
        for (wire, part) in self.wires.iter_mut().zip(&parts) {
            wire.send(part);
        }
        for (caller, part) in parts.iter().enumerate() {
            for command in part {
                let answer = self.wires[caller].receive();
                self.judge(command, answer);
            }
        }
    }

    /// A plain grant of a lock that nobody else touches has a higher token than any seen before.
    fn probe(&mut self, server: &Server) {
        let seen = server.last_token();
        assert!(self.last.is_none_or(|last| seen >= last), "the clock fell");
        self.probes += 1;
        let key = format!("probe {}", self.probes);
        let reply = cmd!(self.witness, "LOCK.ACQUIRE", key, "honest");
        if seen == TOKENS - 1 {
            let text = reply.refused("ERR");
            assert!(text.contains("no fencing token is left"), "{text}");
            self.last = None;
            return;
        }
        let grant = reply.grant();
        assert!(self.last.is_some(), "a token after the last");
        assert!(grant.token > seen, "{} after {seen}", grant.token);
        assert_eq!((grant.owner, grant.holds), (b"honest".to_vec(), 1));
        // A hostile setting may have made the lease so short that it has ended.
        let _ = cmd!(self.witness, "LOCK.RELEASE", key, "honest");
        self.last = Some(grant.token);
        self.values.remember_token(grant.token);
    }

    /// Any reply is fine that the contract knows.
    fn judge(&mut self, command: &Cmd, answer: Answer) {
        let name = words(command).next().expect("a name").to_ascii_uppercase();
        match answer {
            Ok(Value::BulkString(payload)) if name == b"DUMP" => {
                // Near the end of the token space a dump would carry it on.
                if payload.len() < 1000 && !self.values.up_to_the_end {
                    self.values.remember_dump(payload);
                }
            }
            Ok(Value::Array(waiters)) if name == b"LOCK.WAITERS" => {
                waiters.into_iter().for_each(check_waiter);
            }
            Ok(Value::Array(keys)) if name == b"LOCK.HOTKEYS" => {
                keys.into_iter().for_each(check_hot_key);
            }
            // Maps of sessions and of their grants, and the lines of HELP.
            Ok(Value::Array(_) | Value::Map(_)) if name == b"LOCK.SESSION" => {}
            Ok(value) if name.starts_with(b"LOCK.") => {
                if let Ok(grant) = Grant::try_from(value.clone()) {
                    check_grant(&grant);
                    self.values.remember_token(grant.token);
                } else if let Ok(info) = LockInfo::try_from(value.clone()) {
                    check_info(&info);
                } else {
                    let plain = matches!(
                        value,
                        Value::Nil | Value::Okay | Value::Int(_) | Value::SimpleString(_)
                    );
                    assert!(plain, "{:?} to {:?}", value, shown(command));
                }
            }
            Ok(_) => {}
            Err(text) => {
                let what = format!("{text:?} to {:?}", shown(command));
                assert!(!text.contains("fault inside"), "{what}");
                let code = text.split(' ').next().unwrap_or_default();
                let is_known = CODES.split(' ').any(|known| known == code);
                assert!(is_known || !name.starts_with(b"LOCK."), "{what}");
            }
        }
    }
}

/// A command as text, its words cut short.
fn shown(command: &Cmd) -> Vec<String> {
    words(command)
        .map(|word| word[..word.len().min(60)].escape_ascii().to_string())
        .collect()
}
