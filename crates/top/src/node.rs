//! Reads snapshots of one server, and carries out orders there.

use crate::snapshot::{Claim, Found, Held, Hot, Lock, Server, What};
use redis::{Value, cmd};
use redis_lock_tool::{
    Link, Program, ProgramGrant, Target, Waiter, bytes, command, items, lines, number, on, text,
    waiters_of,
};
use std::cmp::Reverse;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// A snapshot scans at most this much of the keyspace, so that it costs the server little. The next snapshot continues
/// the scan.
const SCANS: usize = 10;
const KEYS_A_SCAN: usize = 500;
const SCANNING: Duration = Duration::from_millis(50);
/// How many of the locks held longest, and of the longest queues, are kept between snapshots.
const FOLLOWED: usize = 400;
/// For how many of the longest queues the waiters are read.
const QUEUES: usize = 50;
/// How many hot keys, waiters of a lock, and programs are read.
const HOT_KEYS: usize = 50;
const WAITERS: usize = 200;
const PROGRAMS: usize = 1000;

/// A server.
pub(crate) struct Node {
    pub(crate) address: String,
    pub(crate) link: Link,
    cursor: u64,
    searched: bool,
    /// False once the server has refused to list programs: each refusal is an entry in its `ACL LOG`.
    lists_programs: bool,
    /// The locks that were held in the last snapshot, and those found since.
    known: HashSet<Vec<u8>>,
    /// The locks with the longest queues in the last snapshot.
    queues: Vec<Vec<u8>>,
}

impl Node {
    pub(crate) fn new(target: &Target) -> Self {
        Self {
            address: target.address(),
            link: target.link(),
            cursor: 0,
            searched: false,
            lists_programs: true,
            known: HashSet::new(),
            queues: Vec::new(),
        }
    }

    /// Reads everything that the view shows of this server.
    pub(crate) fn read(&mut self) -> Server {
        let read = self.try_read().unwrap_or_else(|error| Server {
            error: Some(error),
            ..Server::default()
        });
        let address = self.address.clone();
        Server { address, ..read }
    }

    fn try_read(&mut self) -> Result<Server, String> {
        let sections = ["server", "replication", "memory", "stats", "lock"];
        let info = cmd("INFO").arg(&sections).to_owned();
        let hot = command(&format!("LOCK.HOTKEYS COUNT {HOT_KEYS}"));
        let answers = self.link.ask_all([info, cmd("DBSIZE"), hot])?;
        let mut error = [0, 2]
            .into_iter()
            .find_map(|number: usize| answers.get(number)?.clone().err());
        let mut answers = answers.into_iter();
        let mut next = || answers.next().and_then(Result::ok).unwrap_or(Value::Nil);
        let info = lines(&text(&next()));
        if number(&info, "lock_last_token").is_none() {
            error = Some("INFO has no section lock: is the module loaded?".to_owned());
        }
        let keys = text(&next()).parse().unwrap_or(0);
        let hot: Vec<_> = items(&next()).iter().filter_map(Hot::read).collect();
        error = self.search()?.or(error);
        self.known.extend(hot.iter().map(|hot| hot.key.clone()));
        Ok(Server {
            address: String::new(),
            info,
            keys,
            searched: self.searched,
            error,
            locks: self.locks()?,
            hot,
            programs: self.programs()?,
        })
    }

    /// Continues the scan of the keyspace. Returns the error reply if the server refuses it.
    fn search(&mut self) -> Result<Option<String>, String> {
        let start = Instant::now();
        for _ in 0..SCANS {
            match self.scan(self.cursor)? {
                Ok((cursor, keys)) => {
                    self.known.extend(keys);
                    self.cursor = cursor;
                }
                Err(reason) => return Ok(Some(reason)),
            }
            if self.cursor == 0 {
                self.searched = true;
                break;
            }
            if start.elapsed() > SCANNING {
                break;
            }
        }
        Ok(None)
    }

    /// Scans a part of the keyspace. Returns the next cursor and the locks. The inner error is a refusal by the server.
    #[allow(clippy::type_complexity)] // a reply, and what is in it
    pub(crate) fn scan(
        &mut self,
        cursor: u64,
    ) -> Result<Result<(u64, Vec<Vec<u8>>), String>, String> {
        let scan = format!("SCAN {cursor} COUNT {KEYS_A_SCAN} TYPE RedisLock");
        Ok(self.link.ask(&command(&scan))?.map(|answer| {
            let [cursor, keys] = items(&answer) else {
                return (0, Vec::new());
            };
            let keys = items(keys).iter().filter_map(bytes).collect();
            (text(cursor).parse().unwrap_or(0), keys)
        }))
    }

    /// Reads the known locks. Forgets the free locks, and the locks beyond [`FOLLOWED`].
    fn locks(&mut self) -> Result<Vec<Lock>, String> {
        let keys: Vec<_> = self.known.drain().collect();
        let answers = self
            .link
            .ask_all(keys.iter().map(|key| on("LOCK.INFO", key)))?;
        let answers = keys.into_iter().zip(answers);
        let held = answers.filter_map(|(key, answer)| {
            let held = Held::read(&answer.ok()?)?;
            let first = None;
            Some(Lock { key, held, first })
        });
        let mut locks: Vec<_> = held.collect();
        locks.sort_by_key(|lock| Reverse(lock.held.held_ms));
        if locks.len() > 2 * FOLLOWED {
            locks[FOLLOWED..].sort_by_key(|lock| Reverse(lock.held.waiters));
            locks.truncate(2 * FOLLOWED);
        }
        self.known = locks.iter().map(|lock| lock.key.clone()).collect();

        locks.sort_by_key(|lock| Reverse(lock.held.waiters));
        let queues = locks.iter().take_while(|lock| lock.held.waiters > 0);
        let queues = queues.take(QUEUES).map(|lock| lock.key.clone());
        self.queues = queues.collect();
        let firsts = self.queues(1)?;
        for (lock, first) in locks.iter_mut().zip(firsts) {
            lock.first = first.into_iter().next();
        }
        Ok(locks)
    }

    /// Reads the calls in the longest queues, at most `count` of each.
    fn queues(&mut self, count: usize) -> Result<Vec<Vec<Waiter>>, String> {
        let queues = self.queues.iter().map(|key| waiters_of(key, count));
        self.link.lists(queues, Waiter::read)
    }

    /// Reads the programs; empty if the user may not list them.
    fn programs(&mut self) -> Result<Vec<Program>, String> {
        if !self.lists_programs {
            return Ok(Vec::new());
        }
        let list = self
            .link
            .ask(&command(&format!("LOCK.SESSION LIST COUNT {PROGRAMS}")))?;
        self.lists_programs = list.is_ok();
        let list = list.unwrap_or(Value::Nil);
        Ok(items(&list).iter().filter_map(Program::read).collect())
    }

    /// Reads all programs; empty if the user may not list them.
    pub(crate) fn all_programs(&mut self) -> Result<Vec<Program>, String> {
        self.link.list(&command("LOCK.SESSION LIST"), Program::read)
    }

    /// Reads the queue of a lock, or the locks of a program.
    pub(crate) fn look(&mut self, what: &What) -> Result<Found, String> {
        match what {
            What::Lock(key) => {
                let held = self.link.ask(&on("LOCK.INFO", key))?.unwrap_or(Value::Nil);
                let queue = self.waiters(key, WAITERS)?;
                Ok(Found::Queue(Held::read(&held), queue))
            }
            What::Program(session) => self.claims(*session).map(Found::Claims),
        }
    }

    fn waiters(&mut self, key: &[u8], count: usize) -> Result<Vec<Waiter>, String> {
        self.link.list(&waiters_of(key, count), Waiter::read)
    }

    /// Reads the locks that a program holds, and those that it waits for in the longest queues.
    fn claims(&mut self, session: i64) -> Result<Vec<Claim>, String> {
        let held = command(&format!("LOCK.SESSION GRANTS {session} COUNT {WAITERS}"));
        let held = match self.link.ask(&held)? {
            Err(error) if error.starts_with("NOSESSION") => return Ok(Vec::new()),
            held => held?,
        };
        let held = items(&held).iter().filter_map(ProgramGrant::read);
        let claim = |grant: ProgramGrant| Claim {
            key: grant.key,
            owner: grant.owner,
            waited_ms: None,
            left_ms: grant.ttl_ms,
        };
        let mut claims: Vec<_> = held.map(claim).collect();
        let queues = self.queues(WAITERS)?;
        for (key, queue) in self.queues.iter().zip(queues) {
            let own = queue.into_iter().filter(|call| call.session == session);
            claims.extend(own.map(|call| Claim {
                key: key.clone(),
                owner: call.owner,
                waited_ms: Some(call.waited_ms),
                left_ms: call.left_ms,
            }));
        }
        Ok(claims)
    }

    /// Closes the connection of a waiter. Returns a message. Does nothing if the client no longer waits, or polls a
    /// session.
    pub(crate) fn kill(&mut self, key: &[u8], client: i64) -> Result<String, String> {
        let queue = self.waiters(key, usize::from(u16::MAX))?;
        if !queue.iter().any(|waiter| waiter.client_id == client) {
            return Ok(format!("client {client} no longer waits: nothing was done"));
        }
        let mut programs = self.all_programs()?.into_iter();
        if programs.any(|program| program.client_id == client) {
            return Ok(format!(
                "client {client} polls a session now: nothing was done"
            ));
        }
        let killed = self
            .link
            .ask(&command(&format!("CLIENT KILL ID {client}")))?;
        Ok(match killed {
            Ok(Value::Int(1)) => format!("client {client} is killed"),
            Ok(_) => format!("client {client} has already disconnected"),
            Err(refusal) => refusal,
        })
    }

    /// Ends a program's session. Returns a message.
    pub(crate) fn end(&mut self, session: i64) -> Result<String, String> {
        let kill = command(&format!("LOCK.SESSION KILL {session}"));
        Ok(match self.link.ask(&kill)? {
            Ok(released) => format!("session {session} has ended: {} released", text(&released)),
            Err(refusal) => refusal,
        })
    }

    /// Deletes the lock if its grant still has this token. Returns a message. `WATCH` makes the check and the deletion
    /// atomic. If the connection fails in between, nothing is deleted.
    pub(crate) fn unlock(&mut self, key: &[u8], token: i64) -> Result<String, String> {
        let link = &mut self.link;
        let watched = link.ask(&on("WATCH", key))?;
        let held = link.ask(&on("LOCK.INFO", key))?;
        let held = Held::read(&held.unwrap_or(Value::Nil));
        if held.is_none_or(|held| held.token != token) {
            let _ = link.ask(&cmd("UNWATCH"))?;
            let refused = watched.err();
            return Ok(
                refused.unwrap_or_else(|| "that grant has ended: nothing was done".to_owned())
            );
        }
        let answers = link.ask_all([cmd("MULTI"), on("DEL", key), cmd("EXEC")])?;
        let denied = answers.iter().find_map(|answer| answer.clone().err());
        Ok(match answers.last() {
            Some(Ok(Value::Array(_))) => "the lock was freed".to_owned(),
            Some(Ok(Value::Nil)) => "the lock has changed: nothing was done".to_owned(),
            _ => denied.unwrap_or_else(|| "an unexpected reply".to_owned()),
        })
    }
}
