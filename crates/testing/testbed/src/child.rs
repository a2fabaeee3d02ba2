//! Child processes that read and write lines.

use rustix::process::{Pid, kill_process, kill_process_group};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard};
use std::thread;

pub use rustix::process::Signal;

/// A process to whose standard input lines are written. It is killed when this is dropped.
pub struct Child {
    process: Mutex<std::process::Child>,
    input: Mutex<Option<ChildStdin>>,
    pid: Pid,
    kill: fn(Pid, Signal) -> rustix::io::Result<()>,
}

impl Child {
    /// Starts it. The lines of its standard output come until it ends.
    pub fn start(command: &mut Command) -> io::Result<(Self, Receiver<String>)> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = lines(child.stdout.take());
        let child = Self {
            input: Mutex::new(child.stdin.take()),
            pid: Pid::from_child(&child),
            process: Mutex::new(child),
            kill: kill_process,
        };
        Ok((child, lines))
    }

    /// Starts it in a process group of its own: signals reach what it starts, too.
    pub fn start_group(command: &mut Command) -> io::Result<(Self, Receiver<String>)> {
        let (mut child, lines) = Self::start(command.process_group(0))?;
        child.kill = kill_process_group;
        Ok((child, lines))
    }

    /// The lines of its standard error, where the command has a pipe for that.
    pub fn errors(&self) -> Receiver<String> {
        lines(self.process().stderr.take())
    }

    /// The number of the process, and of its group.
    pub fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Writes a line. After [`Self::close`] nothing is written.
    pub fn write(&self, line: &str) -> io::Result<()> {
        match &mut *self.input.lock().expect("the input") {
            Some(input) => input.write_all(format!("{line}\n").as_bytes()),
            None => Ok(()),
        }
    }

    /// Ends its standard input.
    pub fn close(&self) {
        *self.input.lock().expect("the input") = None;
    }

    /// Sends a signal. One that has ended by itself gets none.
    pub fn signal(&self, signal: Signal) {
        let _ = (self.kill)(self.pid, signal);
    }

    /// How it ended, if it has.
    pub fn status(&self) -> Option<ExitStatus> {
        self.process().try_wait().expect("a child's state")
    }

    /// Kills it, and waits for its end.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
        let _ = self.process().wait();
    }

    fn process(&self) -> MutexGuard<'_, std::process::Child> {
        self.process.lock().expect("the process")
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The lines of a pipe, as they come.
fn lines(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let reader = pipe.map(BufReader::new).into_iter();
        let lines = reader.flat_map(|reader| reader.lines().map_while(Result::ok));
        lines
            .map_while(|line| sender.send(line).ok())
            .for_each(drop);
    });
    receiver
}
