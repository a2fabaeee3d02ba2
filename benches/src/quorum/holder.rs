//! A process that takes locks on several servers with this project's client. It gets its tasks line by line:
//!
//! | line | answer |
//! | --- | --- |
//! | `pairs key seconds` | lock and unlock, over and over: JSON with times |
//! | `lock key ms` | `locked` |
//! | `write key text` | `taken` or `refused`, by the register |
//! | `unlock` | `unlocked` |

use std::io::stdin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use redis::Connection;
use redis_lock_client::{Locks, Quorum, quorum::QuorumGuard};
use tokio::runtime::Runtime;

use super::time::Times;

/// The argument that starts this program as a holder.
pub(crate) const ROLE: &str = "hold";

/// A register that refuses lower tokens than the last.
const WRITE: &str = "local last = tonumber(redis.call('HGET', KEYS[1], 'token') or '0')
    if tonumber(ARGV[1]) < last then return 0 end
    redis.call('HSET', KEYS[1], 'token', ARGV[1], 'text', ARGV[2])
    return 1";

/// Serves until its input ends. The arguments are ports: of the register's server, then of the locks'.
pub(crate) fn hold(ports: &[String]) -> ExitCode {
    match serve(ports) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

struct Holder {
    runtime: Runtime,
    locks: Quorum,
    register: Connection,
    guard: Option<QuorumGuard>,
}

fn serve(ports: &[String]) -> Result<(), String> {
    let urls = ports
        .iter()
        .map(|port| format!("redis://127.0.0.1:{port}/"));
    let mut urls: Vec<String> = urls.collect();
    if urls.len() < 2 {
        return Err("usage: hold register-port lock-port ...".into());
    }
    let register = redis::Client::open(urls.remove(0)).map_err(|error| error.to_string())?;
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    let mut holder = Holder {
        runtime,
        locks: Locks::builder()
            .quorum(urls)
            .map_err(|error| error.to_string())?,
        register: register
            .get_connection()
            .map_err(|error| error.to_string())?,
        guard: None,
    };
    for line in stdin().lines().map_while(Result::ok) {
        println!("{}", holder.answer(&line)?);
    }
    Ok(())
}

impl Holder {
    fn answer(&mut self, line: &str) -> Result<String, String> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["pairs", key, seconds] => {
                let seconds = seconds.parse().map_err(|_| "pairs key seconds")?;
                let times = self.pairs(key, Duration::from_secs_f64(seconds));
                serde_json::to_string(&times).map_err(|error| error.to_string())
            }
            ["lock", key, lease] => {
                let lease = lease.parse().map_err(|_| "lock key ms")?;
                let lock = self.locks.lock(key).fixed(Duration::from_millis(lease));
                let lock = lock.wait(Duration::from_secs(30));
                let guard = self.runtime.block_on(lock.acquire());
                self.guard = Some(guard.map_err(|error| error.to_string())?);
                Ok("locked".into())
            }
            ["write", key, text] => {
                let token = self.guard.as_ref().map_or(0, QuorumGuard::token);
                let is_taken: bool = redis::Script::new(WRITE)
                    .key(key)
                    .arg(token)
                    .arg(text)
                    .invoke(&mut self.register)
                    .map_err(|error| error.to_string())?;
                Ok(if is_taken { "taken" } else { "refused" }.into())
            }
            ["unlock"] => {
                if let Some(guard) = self.guard.take() {
                    // A lost lock cannot be released.
                    let _ = self.runtime.block_on(guard.release());
                }
                Ok("unlocked".into())
            }
            _ => Err(format!("what is {line:?}?")),
        }
    }

    fn pairs(&self, key: &str, length: Duration) -> Times {
        let (mut micros, mut errors) = (Vec::new(), 0);
        let lock = self.locks.lock(key);
        let start = Instant::now();
        while start.elapsed() < length {
            let began = Instant::now();
            let pair = self
                .runtime
                .block_on(async { lock.acquire().await?.release().await });
            match pair {
                Ok(()) => micros.push(began.elapsed().as_secs_f64() * 1e6),
                Err(error) => {
                    eprintln!("{error}");
                    errors += 1;
                }
            }
        }
        Times {
            pairs_us: micros,
            errors,
        }
    }
}
