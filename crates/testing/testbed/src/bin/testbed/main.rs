//! Servers with the module as a program: `testbed cluster` and `testbed sentinel` for people, `testbed serve`
//! for tests in any language. All of them end, and their folders go, with Ctrl-C or SIGTERM.

mod playground;
mod serve;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::{env, thread};

/// An event of a running program.
enum Event {
    /// A line of standard input.
    Line(String),
    /// It is to end.
    End,
}

fn main() -> ExitCode {
    let what = env::args().nth(1);
    let run = match what.as_deref() {
        Some("cluster") => playground::cluster,
        Some("sentinel") => playground::sentinel,
        Some("serve") => serve::serve,
        _ => {
            eprintln!("usage: testbed cluster|sentinel|serve");
            return ExitCode::FAILURE;
        }
    };
    let (send, events) = channel();
    // Taken before anything starts: what has started is stopped in order, whenever the signal comes.
    if let Err(error) = end_with_a_signal(send.clone()) {
        eprintln!("signals cannot be taken: {error}");
        return ExitCode::FAILURE;
    }
    testbed::without_watchdog();
    run(send, &events);
    ExitCode::SUCCESS
}

fn end_with_a_signal(send: Sender<Event>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    thread::spawn(move || {
        for _ in signals.forever() {
            let _ = send.send(Event::End);
        }
    });
    Ok(())
}
