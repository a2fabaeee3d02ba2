//! A process that keeps one lock (`KEEP`), which can be stopped as a whole.
//!
//! It tells of each event at once, in a line of JSON. Moments are those of the run.

use super::protocol;
use crate::clock;
use crate::connection::connect;
use history::{Action, Call, Moment, Outcome};
use redis::{Connection, Value};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, sleep};
use std::time::Duration;

/// The pause between two PINGs.
const PACE: Duration = Duration::from_millis(10);

/// What it is to do; its one argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    /// Its number as a client of the history.
    pub(crate) client: u32,
    /// When the run began, by [`crate::clock`].
    pub(crate) origin: Moment,
    pub(crate) port: u16,
    pub(crate) key: String,
    pub(crate) owner: String,
    pub(crate) lease_ms: u64,
    pub(crate) silence_ms: u64,
}

/// What it tells.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Event {
    /// Its acquire has come back.
    Asked(Call),
    /// A PING was answered that was sent at this moment.
    Heard(Moment),
    /// The connection is closed.
    Closed,
}

/// Takes a lock, keeps it, and sends PINGs until the connection is closed.
///
/// # Errors
/// What kept it from working.
pub fn keep(orders: &str) -> Result<(), String> {
    let orders: Orders = serde_json::from_str(orders).map_err(|e| format!("the orders: {e}"))?;
    let mut connection = connect(orders.port).map_err(|e| e.to_string())?;
    let call = acquire(&orders, &mut connection)?;
    let is_granted = matches!(call.outcome, Outcome::Grant { .. });
    tell(&Event::Asked(call))?;
    if !is_granted {
        return Ok(());
    }
    loop {
        let sent = clock::now() - orders.origin;
        if redis::cmd("PING").query::<Value>(&mut connection).is_err() {
            return tell(&Event::Closed);
        }
        tell(&Event::Heard(sent))?;
        sleep(PACE);
    }
}

fn acquire(orders: &Orders, connection: &mut Connection) -> Result<Call, String> {
    let action = Action::Acquire {
        limit: None,
        lease: Some(orders.lease_ms),
        block: false,
        holds: None,
        token: None,
    };
    let mut command = protocol::command(&orders.key, &orders.owner, &action, 0);
    command.arg("KEEP").arg(orders.silence_ms);
    let sent = clock::now() - orders.origin;
    let reply: Value = command.query(connection).map_err(|e| e.to_string())?;
    Ok(Call {
        client: orders.client,
        key: orders.key.clone(),
        owner: orders.owner.clone(),
        outcome: protocol::outcome(&action, reply),
        action,
        sent,
        ended: clock::now() - orders.origin,
        session: None,
    })
}

fn tell(event: &Event) -> Result<(), String> {
    let mut line = serde_json::to_vec(event).map_err(|e| e.to_string())?;
    line.push(b'\n');
    let told = std::io::stdout().lock().write_all(&line);
    told.map_err(|e| e.to_string())
}

/// Such a process, as whoever runs it sees it. It is killed with its guard.
pub(crate) struct Process {
    child: Child,
    pub(crate) events: Receiver<Event>,
}

impl Process {
    /// Starts one.
    pub(crate) fn start(orders: &Orders) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let orders = serde_json::to_string(orders).expect("orders are text");
        let mut child = Command::new(program)
            .args(["keep", &orders])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts");
        let output = child.stdout.take().expect("a pipe");
        let (teller, events) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let event = serde_json::from_str(&line).expect("an event");
                if teller.send(event).is_err() {
                    return;
                }
            }
        });
        Self { child, events }
    }

    /// Lets it stand still, meanwhile this is done, and then lets it go on.
    pub(crate) fn while_stopped<T>(&self, body: impl FnOnce() -> T) -> T {
        let _ = kill_process(Pid::from_child(&self.child), Signal::STOP);
        let result = body();
        let _ = kill_process(Pid::from_child(&self.child), Signal::CONT);
        result
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
