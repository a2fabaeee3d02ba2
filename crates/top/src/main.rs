//! A live view of the locks of a server, or of all primaries of a cluster, in a terminal: the locks held
//! longest, the longest queues, the hottest keys and the programs. `locks` prints all held locks once.

mod arguments;
mod draw;
mod locks;
mod node;
mod popup;
mod snapshot;
mod source;
mod table;
mod view;

#[cfg(test)]
mod live_tests;
#[cfg(test)]
mod program_tests;
#[cfg(test)]
mod view_tests;

use arguments::{Arguments, What};
use clap::Parser;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use redis_lock_tool::Target;
use source::Source;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use view::View;

/// The longest wait for a key press before updates are shown.
const KEY_TIMEOUT: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    redis_lock_tool::prepare_tls();
    let shown = arguments.server.target().and_then(|server| {
        let Some(What::Locks(listing)) = &arguments.what else {
            let shown = run(server, arguments.every());
            return shown.map_err(|error| error.to_string());
        };
        let (text, complete) = locks::list(&mut Source::new(server), listing);
        // A reader may stop at any line.
        let _ = io::stdout().write_all(text.as_bytes());
        let incomplete = || "not all servers could be read".to_owned();
        complete.then_some(()).ok_or_else(incomplete)
    });
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("redis-lock-top: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(server: Target, every: Duration) -> io::Result<()> {
    let mut terminal = terminal()?;
    let (orders, received_orders) = mpsc::channel();
    let (sent_updates, updates) = mpsc::channel();
    // It ends with the process, or when the channels are closed.
    thread::spawn(move || Source::new(server).serve(every, &received_orders, &sent_updates));
    let shown = show(&mut terminal, &orders, &updates);
    ratatui::restore();
    shown
}

/// The terminal that it is started in.
fn terminal() -> io::Result<DefaultTerminal> {
    let none = |why: &str| io::Error::other(format!("it needs a terminal to draw on: {why}"));
    if !io::stdout().is_terminal() {
        return Err(none("the output is a file or a pipe"));
    }
    ratatui::try_init().map_err(|error| {
        let _ = ratatui::try_restore();
        none(&error.to_string())
    })
}

fn show(
    terminal: &mut DefaultTerminal,
    orders: &mpsc::Sender<source::Order>,
    updates: &mpsc::Receiver<source::Update>,
) -> io::Result<()> {
    let mut view = View::new();
    while !view.is_over {
        terminal.draw(|frame| draw::draw(&view, frame))?;
        let mut new_orders = Vec::new();
        if event::poll(KEY_TIMEOUT)? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    new_orders.extend(view.press(key));
                }
                _ => {} // a new size takes effect at the next draw
            }
        }
        while let Ok(update) = updates.try_recv() {
            new_orders.extend(view.apply(update));
        }
        for order in new_orders {
            orders.send(order).map_err(io::Error::other)?;
        }
    }
    Ok(())
}
