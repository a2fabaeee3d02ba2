//! One server: reading a snapshot, and carrying out orders.

use crate::reply::{Held, Hot, Info, Session, Waiter, bytes, items};
use crate::snapshot::{Lock, LockId, Server};
use redis::{Cmd, Connection, ConnectionInfo, ConnectionLike, Pipeline, RedisResult, Value, cmd};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// How long a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// A snapshot scans no more of the keyspace than this, so that it costs the server little. The next one goes
/// on from there.
const SCANS: usize = 10;
const KEYS_A_SCAN: usize = 500;
const SCANNING: Duration = Duration::from_millis(50);
/// How many of the locks held longest, and of the longest queues, are followed between snapshots.
const FOLLOWED: usize = 400;
/// How many of the longest queues are asked for their first waiter.
const QUEUES: usize = 50;
/// How many hot keys are asked for, and how many waiters of a lock.
const HOT_KEYS: usize = 50;
const WAITERS: usize = 200;

/// A server.
pub(crate) struct Node {
    pub(crate) address: String,
    settings: ConnectionInfo,
    connection: Option<Connection>,
    cursor: u64,
    searched: bool,
    /// The locks that were held in the last snapshot, and those found since.
    known: HashSet<Vec<u8>>,
}

/// A server, its locks and its hottest keys.
pub(crate) type Findings = (Server, Vec<Lock>, Vec<(LockId, Hot)>);

impl Node {
    pub(crate) fn new(settings: ConnectionInfo) -> Self {
        Self {
            address: settings.addr().to_string(),
            settings,
            connection: None,
            cursor: 0,
            searched: false,
            known: HashSet::new(),
        }
    }

    /// Uses the connection, or a new one if there is none. A connection that fails is dropped.
    pub(crate) fn with<T>(
        &mut self,
        act: impl FnOnce(&mut Connection) -> RedisResult<T>,
    ) -> RedisResult<T> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(&self.settings)?,
        };
        let result = act(&mut connection)?;
        self.connection = Some(connection);
        Ok(result)
    }

    /// Reads everything that the view shows of this server.
    pub(crate) fn read(&mut self) -> Findings {
        self.try_read().unwrap_or_else(|error| {
            let error = Some(error.to_string());
            let address = self.address.clone();
            let server = Server {
                address,
                error,
                ..Server::default()
            };
            (server, Vec::new(), Vec::new())
        })
    }

    fn try_read(&mut self) -> RedisResult<Findings> {
        let hot_keys = cmd("LOCK.HOTKEYS").arg("COUNT").arg(HOT_KEYS).to_owned();
        let sections = ["server", "replication", "memory", "stats", "lock"];
        let info = cmd("INFO").arg(&sections).to_owned();
        let answers = self.ask([info, cmd("DBSIZE"), hot_keys])?;
        let [info, keys, hot] = answers.try_into().unwrap_or([const { Value::Nil }; 3]);
        let mut error = [&info, &hot].into_iter().find_map(refusal);
        let info = Info::read(info);
        if info.number("lock_last_token").is_none() {
            error = Some("no section lock in INFO: is the module loaded?".to_owned());
        }
        let hot: Vec<_> = items(hot).into_iter().filter_map(Hot::read).collect();

        error = self.search()?.or(error);
        self.known.extend(hot.iter().map(|hot| hot.key.clone()));
        let locks = self.locks()?;
        let server = Server {
            address: self.address.clone(),
            info,
            keys: if let Value::Int(keys) = keys { keys } else { 0 },
            searched: self.searched,
            error,
        };
        let with_id = |hot: Hot| (self.lock_id(&hot.key), hot);
        Ok((server, locks, hot.into_iter().map(with_id).collect()))
    }

    /// Goes on with the scan of the keyspace. Returns the error reply if the server refuses it.
    fn search(&mut self) -> RedisResult<Option<String>> {
        let start = Instant::now();
        for _ in 0..SCANS {
            let mut scan = cmd("SCAN");
            scan.arg(self.cursor).arg("COUNT").arg(KEYS_A_SCAN);
            scan.arg("TYPE").arg("RedisLock");
            let answer = self.with(|connection| connection.req_command(&scan))?;
            if let Some(reason) = refusal(&answer) {
                return Ok(Some(reason));
            }
            let mut parts = items(answer).into_iter();
            let cursor = parts.next().and_then(bytes).unwrap_or_default();
            let keys = parts.next().map(items).unwrap_or_default();
            self.known.extend(keys.into_iter().filter_map(bytes));
            self.cursor = String::from_utf8_lossy(&cursor).parse().unwrap_or(0);
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

    /// Reads the known locks. Forgets those that are free, and those beyond [`FOLLOWED`].
    fn locks(&mut self) -> RedisResult<Vec<Lock>> {
        let keys: Vec<_> = self.known.drain().collect();
        let answers = self.ask(keys.iter().map(|key| cmd("LOCK.INFO").arg(key).to_owned()))?;
        let mut locks: Vec<_> = keys
            .into_iter()
            .zip(answers)
            .filter_map(|(key, answer)| {
                let held = Held::read(answer)?;
                Some(Lock {
                    id: self.lock_id(&key),
                    held,
                    first: None,
                })
            })
            .collect();
        locks.sort_by_key(|lock| std::cmp::Reverse(lock.held.held_ms));
        if locks.len() > 2 * FOLLOWED {
            locks[FOLLOWED..].sort_by_key(|lock| std::cmp::Reverse(lock.held.waiters));
            locks.truncate(2 * FOLLOWED);
        }
        self.known = locks.iter().map(|lock| lock.id.key.clone()).collect();

        locks.sort_by_key(|lock| std::cmp::Reverse(lock.held.waiters));
        let queues = locks
            .iter()
            .take_while(|lock| lock.held.waiters > 0)
            .take(QUEUES);
        let firsts = self.ask(queues.map(|lock| waiters(&lock.id.key, 1)))?;
        for (lock, answer) in locks.iter_mut().zip(firsts) {
            lock.first = items(answer).into_iter().next().and_then(Waiter::read);
        }
        Ok(locks)
    }

    /// The holder of a lock, and the waiters.
    pub(crate) fn queue(&mut self, key: &[u8]) -> RedisResult<(Option<Held>, Vec<Waiter>)> {
        let info = cmd("LOCK.INFO").arg(key).to_owned();
        let mut answers = self.ask([info, waiters(key, WAITERS)])?;
        let queue = items(answers.pop().unwrap_or(Value::Nil));
        let held = answers.pop().and_then(Held::read);
        let queue = self.with_programs(queue.into_iter().filter_map(Waiter::read).collect())?;
        Ok((held, queue))
    }

    /// Adds the programs of calls in sessions. A user without the right to list sessions sees their ids alone.
    fn with_programs(&mut self, queue: Vec<Waiter>) -> RedisResult<Vec<Waiter>> {
        if queue.iter().all(|waiter| waiter.session == 0) {
            return Ok(queue);
        }
        let list = cmd("LOCK.SESSION").arg("LIST").to_owned();
        let sessions = items(self.with(|connection| connection.req_command(&list))?);
        let sessions: Vec<_> = sessions.into_iter().filter_map(Session::read).collect();
        let queue = queue.into_iter();
        Ok(queue.map(|waiter| waiter.with_program(&sessions)).collect())
    }

    /// Closes the connection of a waiter; returns a message. A client that does not wait any more is left
    /// alone.
    pub(crate) fn kill(&mut self, key: &[u8], client_id: i64) -> RedisResult<String> {
        let all = waiters(key, usize::from(u16::MAX));
        let queue = self.with(|connection| connection.req_command(&all))?;
        let mut queue = items(queue).into_iter().filter_map(Waiter::read);
        if !queue.any(|waiter| waiter.client_id == client_id) {
            return Ok(format!(
                "client {client_id} does not wait any more: nothing done"
            ));
        }
        let kill = cmd("CLIENT")
            .arg("KILL")
            .arg("ID")
            .arg(client_id)
            .to_owned();
        Ok(
            match self.with(|connection| connection.req_command(&kill))? {
                Value::Int(1) => format!("client {client_id} is killed"),
                Value::Int(_) => format!("client {client_id} is gone already"),
                answer => refusal(&answer).unwrap_or_else(|| "an unexpected answer".to_owned()),
            },
        )
    }

    /// Deletes the lock if its grant still has this token; returns a message. `WATCH` makes the check and the
    /// deletion atomic.
    pub(crate) fn unlock(&mut self, key: &[u8], token: i64) -> RedisResult<String> {
        self.with(|connection| {
            let watched = connection.req_command(cmd("WATCH").arg(key))?;
            let held = Held::read(connection.req_command(cmd("LOCK.INFO").arg(key))?);
            if held.is_none_or(|held| held.token != token) {
                connection.req_command(&cmd("UNWATCH"))?;
                let refused = refusal(&watched);
                return Ok(refused.unwrap_or_else(|| "that grant is over: nothing done".to_owned()));
            }
            let mut transaction = Pipeline::new();
            transaction.add_command(cmd("MULTI"));
            transaction.cmd("DEL").arg(key);
            transaction.add_command(cmd("EXEC"));
            let answers =
                connection.req_packed_commands(&transaction.get_packed_pipeline(), 0, 3)?;
            let denied = answers.iter().find_map(refusal);
            Ok(match answers.last() {
                Some(Value::Array(_)) => "the lock is freed".to_owned(),
                Some(Value::Nil) => "the lock changed in between: nothing done".to_owned(),
                _ => denied.unwrap_or_else(|| "an unexpected answer".to_owned()),
            })
        })
    }

    /// Sends commands at once and returns the replies; an error is a reply.
    fn ask(&mut self, commands: impl IntoIterator<Item = Cmd>) -> RedisResult<Vec<Value>> {
        let mut pipeline = Pipeline::new();
        for command in commands {
            pipeline.add_command(command);
        }
        let count = pipeline.len();
        if count == 0 {
            return Ok(Vec::new());
        }
        let packed = pipeline.get_packed_pipeline();
        self.with(|connection| connection.req_packed_commands(&packed, 0, count))
    }

    fn lock_id(&self, key: &[u8]) -> LockId {
        LockId {
            server: self.address.clone(),
            key: key.to_vec(),
        }
    }
}

fn connect(settings: &ConnectionInfo) -> RedisResult<Connection> {
    let client = redis::Client::open(settings.clone())?;
    let connection = client.get_connection_with_timeout(TIMEOUT)?;
    connection.set_read_timeout(Some(TIMEOUT))?;
    connection.set_write_timeout(Some(TIMEOUT))?;
    Ok(connection)
}

fn waiters(key: &[u8], count: usize) -> Cmd {
    cmd("LOCK.WAITERS")
        .arg(key)
        .arg("COUNT")
        .arg(count)
        .to_owned()
}

/// The text of an error reply.
fn refusal(value: &Value) -> Option<String> {
    let Value::ServerError(error) = value else {
        return None;
    };
    Some(match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    })
}
