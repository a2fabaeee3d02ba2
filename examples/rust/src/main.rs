//! The example programs. What each does, and how it is started, is in `examples/README.md`.

mod arguments;
mod fence;
mod job;
mod redis_data;
mod seat;
mod sql;
mod stock;

use arguments::{Arguments, Wrong};
use redis_data::Data;
use redis_lock_client::Locks;
use std::error::Error;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

/// What these programs cannot go on without is told to whoever started them.
type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// 128 and the number of the signal.
const ENDED_BY_SIGTERM: u8 = 128 + 15;

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => start(&arguments).await,
        Err(wrong) => Err(wrong.into()),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::from(if error.is::<Wrong>() { 2 } else { 1 })
    })
}

async fn start(arguments: &Arguments) -> Outcome<ExitCode> {
    let port = arguments.get("port")?;
    let mut asked_to_end = signal(SignalKind::terminate())?;
    let mut locks = Locks::builder().service("examples");
    if matches!(arguments.program.as_str(), "job" | "fence") {
        // The process may stand still for as long.
        let lease = arguments.millis("lease-ms")?;
        locks = locks.lease(lease).silence(lease);
    }
    let locks = locks.single(("127.0.0.1", port))?;
    let outcome = tokio::select! {
        outcome = run(&locks, port, arguments) => outcome.map(|()| ExitCode::SUCCESS),
        _ = asked_to_end.recv() => Ok(ExitCode::from(ENDED_BY_SIGTERM)),
    };
    let closed = locks.close().await;
    outcome.and_then(|code| closed.map(|()| code).map_err(Into::into))
}

async fn run(locks: &Locks, port: u16, arguments: &Arguments) -> Outcome<()> {
    let data = Data::connect(port).await?;
    match arguments.program.as_str() {
        "stock" => stock::run(locks, data, arguments).await,
        "seat" => seat::run(data, arguments).await,
        "job" => job::run(locks, data, arguments).await,
        "fence" => fence::run(locks, data, arguments).await,
        other => Err(Wrong(format!("there is no program {other}")).into()),
    }
}

/// A result, on a line of its own.
fn print(result: &serde_json::Value) {
    println!("{result}");
}
