//! A live view of the locks of a server, or of all primaries of a cluster, in a terminal: the locks held
//! longest, the longest queues, the hottest keys and the programs. `locks` prints all held locks once.

mod draw;
mod grid;
mod locks;
mod node;
mod order;
mod popup;
mod snapshot;
mod source;
mod table;
mod view;

#[cfg(test)]
mod tests;

use clap::{Args, Parser, Subcommand, ValueEnum};
use order::{Order, Update};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use redis_lock_tool::{ServerOptions, Target};
use source::Source;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use view::View;

/// The longest wait for a key before updates are shown.
const KEY_TIMEOUT: Duration = Duration::from_millis(50);

/// Shows the locks of a server, or of all primaries of a cluster.
#[derive(Parser)]
#[command(name = "redis-lock-top", version)]
struct Arguments {
    #[command(flatten)]
    server: ServerOptions,
    /// How many milliseconds pass between two snapshots.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..))]
    every: u64,
    #[command(subcommand)]
    what: Option<What>,
}

/// The action instead of the live view.
#[derive(Subcommand)]
enum What {
    /// Prints all held locks once.
    Locks(Listing),
}

/// How the locks are printed.
#[derive(Args)]
struct Listing {
    /// Locks of one owner, or of one program, together.
    #[arg(long, value_enum, default_value_t = By::Owner)]
    by: By,
    /// In JSON.
    #[arg(long)]
    json: bool,
}

/// The property by which locks are grouped.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    Owner,
    Session,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let shown = arguments.server.target().and_then(|server| {
        let Some(What::Locks(listing)) = &arguments.what else {
            let shown = run(server, Duration::from_millis(arguments.every));
            return shown
                .map(|()| (String::new(), true))
                .map_err(|error| error.to_string());
        };
        Ok(locks::list(&mut Source::new(server), listing))
    });
    let (text, missing) = match shown {
        Ok((text, true)) => (text, None),
        Ok((text, false)) => (text, Some("not all servers could be read".to_owned())),
        Err(error) => (String::new(), Some(error)),
    };
    let exit = u8::from(missing.is_some());
    redis_lock_tool::end("redis-lock-top", &text, missing.as_deref(), exit)
}

fn run(server: Target, every: Duration) -> io::Result<()> {
    let mut terminal = terminal()?;
    let (orders, received_orders) = mpsc::channel();
    let (sent_updates, updates) = mpsc::channel();
    // The thread ends with the process, or when the channels are closed.
    thread::spawn(move || Source::new(server).serve(every, &received_orders, &sent_updates));
    let shown = show(&mut terminal, &orders, &updates);
    ratatui::restore();
    shown
}

/// The terminal that the program was started in.
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
    orders: &mpsc::Sender<Order>,
    updates: &mpsc::Receiver<Update>,
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
