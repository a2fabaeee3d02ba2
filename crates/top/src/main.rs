//! A live view of the locks of a server, or of all primaries of a cluster, in a terminal: the locks held
//! longest, the longest queues and the hottest keys.

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

use clap::Parser;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use redis::{ConnectionInfo, IntoConnectionInfo};
use source::Source;
use std::io;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use view::View;

/// The longest wait for a key press before updates are shown.
const KEY_TIMEOUT: Duration = Duration::from_millis(50);

/// Shows the locks of a server, or of all primaries of a cluster.
#[derive(Parser)]
#[command(name = "redis-lock-top", version)]
struct Arguments {
    /// The server, or any node of the cluster: `redis://[user:password@]host:port[/database]`.
    #[arg(
        long,
        env = "REDIS_URL",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379"
    )]
    url: String,
    /// A server on this machine, in the place of a URL.
    #[arg(long)]
    port: Option<u16>,
    /// How many milliseconds pass between two snapshots.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..))]
    every: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = server(&arguments).and_then(|server| {
        let every = Duration::from_millis(arguments.every);
        run(server, every).map_err(|error| error.to_string())
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("redis-lock-top: {error}");
            ExitCode::FAILURE
        }
    }
}

fn server(arguments: &Arguments) -> Result<ConnectionInfo, String> {
    let info = match arguments.port {
        Some(port) => ("127.0.0.1", port).into_connection_info(),
        None => arguments.url.as_str().into_connection_info(),
    };
    info.map_err(|error| error.to_string())
}

fn run(server: ConnectionInfo, every: Duration) -> io::Result<()> {
    let (orders, received_orders) = mpsc::channel();
    let (sent_updates, updates) = mpsc::channel();
    // It ends with the process, or when the channels are closed.
    thread::spawn(move || Source::new(server).serve(every, &received_orders, &sent_updates));
    ratatui::run(|terminal| show(terminal, &orders, &updates))
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
