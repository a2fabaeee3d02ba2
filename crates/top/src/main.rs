//! A live view of the locks of a server, or of all primaries of a cluster, in a terminal: the locks held
//! longest, the longest queues and the hottest keys.

mod arguments;
mod draw;
mod node;
mod popup;
mod reply;
mod snapshot;
mod source;
mod table;
mod view;
mod words;

#[cfg(test)]
mod live_tests;
#[cfg(test)]
mod view_tests;

use arguments::Arguments;
use clap::Parser;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use redis::ConnectionInfo;
use source::Source;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use view::View;

/// The longest wait for a key press before updates are shown.
const KEY_TIMEOUT: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    redis_lock_server_options::prepare_tls();
    let shown = arguments
        .server()
        .and_then(|server| run(server, arguments.every()).map_err(|error| error.to_string()));
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("redis-lock-top: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(server: ConnectionInfo, every: Duration) -> io::Result<()> {
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
