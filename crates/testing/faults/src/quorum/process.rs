//! A contender's process, as whoever runs it sees it.

use super::event::{Event, Orders, contender_of};
use crate::clock;
use history::{Action, Call, Granted, Moment, Outcome, Write, Written};
use std::collections::{BTreeMap, HashMap};
use std::process::Command;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use testbed::{Child, Signal};

/// A contender. It is killed with its guard.
pub(crate) struct Process {
    pub(crate) number: u32,
    /// It works until its input is closed.
    child: Child,
    origin: Moment,
    reader: JoinHandle<Vec<Event>>,
    stops: Vec<(Moment, Moment)>,
    was_killed: bool,
}

/// The state that a contender has left behind.
pub(crate) struct Record {
    pub(crate) number: u32,
    pub(crate) events: Vec<Event>,
    /// In which times it was stopped.
    pub(crate) stops: Vec<(Moment, Moment)>,
    pub(crate) was_killed: bool,
    /// It ended as it was told to.
    pub(crate) has_ended_well: bool,
}

/// The reports of all contenders so far, to choose which one to stop or kill.
#[derive(Default)]
pub(crate) struct Progress {
    /// By task: the lock and its token.
    pub(crate) holds: HashMap<u32, (String, u64)>,
    /// By lock: the highest token that the register has taken.
    pub(crate) written: BTreeMap<String, u64>,
    /// By lock: when it was last obtained.
    pub(crate) obtained: BTreeMap<String, Moment>,
}

/// The reports of all contenders: they add to it, and the nemesis reads it.
pub(crate) type Board = Arc<Mutex<Progress>>;

impl Process {
    /// Starts one.
    pub(crate) fn start(orders: &Orders, board: &Board) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let orders_text = serde_json::to_string(orders).expect("orders are text");
        let mut command = Command::new(program);
        let command = command.args(["contend", &orders_text]);
        // With the processes that it starts.
        let (child, output) = Child::start_group(command).expect("this program starts");
        let (board, number) = (Arc::clone(board), orders.number);
        Self {
            number,
            child,
            origin: orders.origin,
            reader: std::thread::spawn(move || listen(output, number, &board)),
            stops: Vec::new(),
            was_killed: false,
        }
    }

    pub(crate) fn stop(&mut self) {
        self.child.signal(Signal::STOP);
        self.stops.push((self.now(), Moment::MAX));
    }

    /// Lets it go on.
    pub(crate) fn go_on(&mut self) {
        self.child.signal(Signal::CONT);
        let now = self.now();
        if let Some(stop) = self.stops.last_mut() {
            stop.1 = now;
        }
    }

    pub(crate) fn kill(&mut self) {
        self.was_killed = true;
        self.child.signal(Signal::KILL);
    }

    /// Tells it to end when it has done what it is at.
    pub(crate) fn close(&mut self) {
        self.child.close();
    }

    /// Waits until it has ended, and gives what it has told.
    pub(crate) fn finish(self, patience: Duration) -> Record {
        let until = Instant::now() + patience;
        let mut status = None;
        while status.is_none() && Instant::now() < until {
            status = self.child.status();
            std::thread::sleep(Duration::from_millis(5));
        }
        self.child.kill();
        Record {
            number: self.number,
            events: self.reader.join().expect("who listens"),
            stops: self.stops,
            was_killed: self.was_killed,
            has_ended_well: status.is_some_and(|status| status.success()),
        }
    }

    fn now(&self) -> Moment {
        clock::now() - self.origin
    }
}

/// Takes what a contender tells until it has ended. A line that its death has cut is none.
fn listen(output: Receiver<String>, number: u32, board: &Board) -> Vec<Event> {
    let mut events = Vec::new();
    for line in output {
        if let Ok(event) = serde_json::from_str::<Event>(&line) {
            progress(board).take(&event);
            events.push(event);
        }
    }
    progress(board).forget(number);
    events
}

/// The present knowledge.
pub(crate) fn progress(board: &Board) -> MutexGuard<'_, Progress> {
    board.lock().expect("nobody died with the board")
}

impl Progress {
    fn take(&mut self, event: &Event) {
        match event {
            Event::Ends { call, .. } => self.take_call(call),
            Event::Wrote(Write {
                key,
                token,
                written: Written::Taken,
                ..
            }) => {
                let written = self.written.entry(key.clone()).or_default();
                *written = (*token).max(*written);
            }
            _ => {}
        }
    }

    fn take_call(&mut self, call: &Call) {
        if let Action::Release { .. } = call.action {
            self.holds.remove(&call.client);
        } else if let Outcome::Grant(Granted { token, .. }) = call.outcome {
            self.holds.insert(call.client, (call.key.clone(), token));
            let obtained = self.obtained.entry(call.key.clone()).or_default();
            *obtained = call.ended.max(*obtained);
        }
    }

    fn forget(&mut self, number: u32) {
        self.holds
            .retain(|client, _| contender_of(*client) != number);
    }

    /// Whether the register has taken a higher token than each of these.
    pub(crate) fn are_overtaken(&self, holds: &[(String, u64)]) -> bool {
        holds
            .iter()
            .all(|(key, token)| self.written.get(key).is_some_and(|written| written > token))
    }
}
