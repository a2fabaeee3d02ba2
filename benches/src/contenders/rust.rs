//! The contenders in Rust: a program like those of the other languages in benches/. Each contender is a task.

use std::error::Error;
use std::io::stdin;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, Script};
use redis_lock_client::quorum::QuorumLock;
use redis_lock_client::{Lock, Locks};
use tokio::runtime::Runtime;

use super::turn::Turn;
use crate::ways::Passed;

/// The argument that starts this program as contenders.
pub(crate) const ROLE: &str = "contend";

/// A register that refuses lower tokens than the last.
const WRITE: &str = "local last = tonumber(redis.call('HGET', KEYS[1], 'token') or '0')
    if tonumber(ARGV[1]) < last then return 0 end
    redis.call('HSET', KEYS[1], 'token', ARGV[1], 'text', ARGV[2])
    return 1";

/// A contender's view of a lock.
enum Handle {
    Client(Lock),
    /// With the register that its holder writes to.
    Quorum(QuorumLock, Option<Client>),
    /// The commands alone, on a connection of its own.
    Commands([Cmd; 2], MultiplexedConnection),
}

/// The clock of a turn.
struct Clock {
    began: Instant,
    over: AtomicBool,
}

/// Serves until its input ends. The ways of locking are client, commands, baton and quorum.
pub(crate) fn serve(arguments: &[String]) -> ExitCode {
    let [ports, way, key, numbers @ ..] = arguments else {
        return ExitCode::FAILURE;
    };
    let numbers: Result<Vec<u64>, _> = numbers.iter().map(|word| word.parse()).collect();
    let Ok([contenders, locks, held_ms, lease_ms, register @ ..]) = numbers.as_deref() else {
        return ExitCode::FAILURE;
    };
    let [held, lease] = [held_ms, lease_ms].map(|ms| Duration::from_millis(*ms));
    let client = |port: &str| Client::open(format!("redis://127.0.0.1:{port}/")).expect("a client");
    let clients: Vec<Client> = ports.split(',').map(client).collect();
    let register = register.first().map(|port| client(&port.to_string()));
    let keys = (0..*contenders).map(|number| format!("{key}:{}", number % locks));
    let locks = Locks::builder().service("contenders").lease(lease);
    let runtime = Runtime::new().expect("a runtime");
    let handles: Vec<Handle> = match way.as_str() {
        "client" => {
            let locks = locks.client(&clients[0]);
            keys.map(|key| Handle::Client(locks.lock(key))).collect()
        }
        "quorum" => {
            let servers = clients
                .iter()
                .map(|client| client.get_connection_info().clone());
            let locks = locks.quorum(servers).expect("a quorum");
            let handle = |key| match &register {
                // Nothing renews a lock that is to be lost.
                Some(register) => {
                    Handle::Quorum(locks.lock(key).fixed(lease), Some(register.clone()))
                }
                None => Handle::Quorum(locks.lock(key), None),
            };
            keys.map(handle).collect()
        }
        _ => {
            let passed = match way.as_str() {
                "baton" => Passed::Baton,
                _ => Passed::Lock,
            };
            let mut connection = clients[0].get_connection().expect("a connection");
            // A call may wait for long.
            let patient = AsyncConnectionConfig::new().set_response_timeout(None);
            let handle = |(number, key): (usize, String)| {
                passed.free(&mut connection, &key);
                let own = clients[0].get_multiplexed_async_connection_with_config(&patient);
                let calls = [passed.ask(&key, number), passed.pass_on(&key, number)];
                Handle::Commands(calls, runtime.block_on(own).expect("a connection"))
            };
            keys.enumerate().map(handle).collect()
        }
    };
    let handles: Vec<Arc<Handle>> = handles.into_iter().map(Arc::new).collect();
    println!("ready");
    while let Some(line) = told() {
        let length = Duration::from_secs_f64(line.parse().expect("seconds"));
        let turn = runtime.block_on(turn(&handles, length, held));
        println!("{}", serde_json::to_string(&turn).expect("a turn"));
    }
    ExitCode::SUCCESS
}

/// The next line of the input.
fn told() -> Option<String> {
    stdin().lines().next()?.ok()
}

/// A turn of this length.
async fn turn(handles: &[Arc<Handle>], length: Duration, held: Duration) -> Turn {
    let epoch = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let clock = Arc::new(Clock {
        began: Instant::now(),
        over: AtomicBool::new(false),
    });
    let contender =
        |handle: &Arc<Handle>| tokio::spawn(contend(Arc::clone(handle), Arc::clone(&clock), held));
    let contenders: Vec<_> = handles.iter().map(contender).collect();
    tokio::time::sleep(length).await;
    clock.over.store(true, Ordering::SeqCst);
    let mut turn = Turn {
        began: epoch.as_nanos() as u64,
        seconds: clock.began.elapsed().as_secs_f64(),
        ..Turn::default()
    };
    for contender in contenders {
        let (times, errors) = contender.await.expect("a contender");
        turn.times.push(times);
        turn.errors += errors;
    }
    turn
}

/// The times of a contender, and its errors.
async fn contend(handle: Arc<Handle>, clock: Arc<Clock>, held: Duration) -> (Vec<u64>, u64) {
    let (mut times, mut errors) = (Vec::new(), 0);
    let now = || clock.began.elapsed().as_nanos() as u64;
    loop {
        let asked = now();
        let pair = handle.pair(async || {
            let granted = now();
            rest(held).await;
            times.extend([asked, granted, now()]);
        });
        if let Err(error) = pair.await {
            eprintln!("{error}");
            errors += 1;
        }
        rest(held).await;
        if clock.over.load(Ordering::Relaxed) {
            return (times, errors);
        }
    }
}

async fn rest(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

impl Handle {
    /// Takes the lock, works, writes to the register when it is told to, and releases the lock.
    async fn pair(&self, work: impl AsyncFnOnce()) -> Result<(), Box<dyn Error + Send + Sync>> {
        match self {
            Self::Client(lock) => {
                let guard = lock.acquire().await?;
                work().await;
                guard.release().await?;
            }
            Self::Quorum(lock, register) => {
                let guard = lock.acquire().await?;
                work().await;
                if let Some(register) = register {
                    println!("held");
                    told();
                    let call = Script::new(WRITE);
                    let mut call = call.key("register");
                    call.arg(guard.token()).arg(process::id());
                    call.invoke::<()>(&mut register.get_connection()?)?;
                }
                guard.release().await?;
            }
            Self::Commands([ask, pass_on], connection) => {
                let mut connection = connection.clone();
                ask.exec_async(&mut connection).await?;
                work().await;
                pass_on.exec_async(&mut connection).await?;
            }
        }
        Ok(())
    }
}
