//! The process of a worker, with all that its start script has started.

use super::call::Desk;
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use testbed::{Child, Signal};

/// How many lines of standard error are kept.
const LAST_LINES: usize = 12;

pub(super) struct Process {
    child: Child,
    last: Arc<Mutex<VecDeque<String>>>,
}

/// The resources that a process has taken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) memory_kb: u64,
    pub(crate) threads: usize,
}

impl Process {
    /// Starts the script in a process group of its own. What it writes goes to the desk.
    pub(super) fn start(program: &Path, desk: &Arc<Desk>) -> io::Result<Self> {
        let mut command = Command::new(program);
        let (child, output) = Child::start_group(command.stderr(Stdio::piped()))?;
        let errors = child.errors();
        let last = Arc::new(Mutex::new(VecDeque::new()));
        let words = Arc::clone(&last);
        thread::spawn(move || {
            for line in errors {
                let mut words = words.lock().expect("lines");
                words.push_back(line);
                if words.len() > LAST_LINES {
                    words.pop_front();
                }
            }
        });
        let (desk, words) = (Arc::clone(desk), Arc::clone(&last));
        thread::spawn(move || {
            for line in output {
                desk.take(&line);
            }
            desk.end(&tail(&words));
        });
        Ok(Self { child, last })
    }

    /// Writes a line. That it cannot be read any more is told by the end of the output.
    pub(super) fn write(&self, line: &str) {
        let _ = self.child.write(line);
    }

    pub(super) fn close_input(&self) {
        self.child.close();
    }

    pub(super) fn signal(&self, signal: Signal) {
        self.child.signal(signal);
    }

    /// A number that no other process has.
    pub(super) fn number(&self) -> u32 {
        self.child.id()
    }

    /// Whether anything of it is left.
    pub(super) fn is_alive(&self) -> bool {
        self.child.status();
        !self.members().is_empty()
    }

    pub(super) fn usage(&self) -> Usage {
        let mut sum = Usage::default();
        for pid in self.members() {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let number =
                resident.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
            sum.memory_kb += number.unwrap_or_default();
            sum.threads += fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        }
        sum
    }

    pub(super) fn last_words(&self) -> String {
        tail(&self.last)
    }

    /// The processes of the group that have not ended.
    fn members(&self) -> Vec<u32> {
        let group = self.number();
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| {
            let stat = stat_of(*pid);
            let mut fields = stat.split(' ');
            let is_dead = fields
                .next()
                .is_none_or(|state| state == "Z" || state == "X");
            !is_dead && fields.nth(1).and_then(|text| text.parse().ok()) == Some(group)
        })
        .collect()
    }
}

/// The kernel's figures of a process, from its state on; empty after it has ended.
fn stat_of(pid: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before it may hold anything but the last bracket.
    stat.rsplit_once(") ")
        .map(|(_, rest)| rest.to_owned())
        .unwrap_or_default()
}

fn tail(last: &Mutex<VecDeque<String>>) -> String {
    let last = last.lock().expect("lines");
    last.iter()
        .fold(String::new(), |text, line| text + "\n    " + line)
}
