//! A door to a server that lets a request through and then loses its answer.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

/// Forwards connections to a port.
pub(crate) struct Proxy {
    port: u16,
    orders: Arc<Orders>,
}

#[derive(Default)]
struct Orders {
    /// The answer to the next request with these bytes is lost.
    command: Mutex<Option<String>>,
    lost: AtomicUsize,
}

impl Proxy {
    pub(crate) fn start(target: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let orders = Arc::new(Orders::default());
        let for_all = Arc::clone(&orders);
        // It ends with the test program.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)) {
                    connect(client, server, &for_all);
                }
            }
        });
        Self { port, orders }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Lets the next such request through, and closes its connection in place of the answer.
    pub(crate) fn lose_answer_to(&self, command: &str) {
        *self.orders.command.lock().expect("orders") = Some(command.to_owned());
    }

    /// How many answers have been lost.
    pub(crate) fn lost(&self) -> usize {
        self.orders.lost.load(SeqCst)
    }
}

fn connect(client: TcpStream, server: TcpStream, orders: &Arc<Orders>) {
    let lose_next = Arc::new(AtomicBool::new(false));
    let clone = |stream: &TcpStream| stream.try_clone().expect("a stream");
    let (from_client, to_server) = (clone(&client), clone(&server));
    let (armed, watched) = (Arc::clone(orders), Arc::clone(&lose_next));
    thread::spawn(move || {
        forward(from_client, to_server, |request| {
            let mut command = armed.command.lock().expect("orders");
            let text = String::from_utf8_lossy(request);
            if command
                .as_ref()
                .is_some_and(|name| text.contains(name.as_str()))
            {
                *command = None;
                watched.store(true, SeqCst);
            }
            true
        });
    });
    let orders = Arc::clone(orders);
    thread::spawn(move || {
        forward(server, client, |_| {
            let is_lost = lose_next.load(SeqCst);
            orders.lost.fetch_add(usize::from(is_lost), SeqCst);
            !is_lost
        });
    });
}

/// Copies until an end closes or `look` says no; then both are closed.
fn forward(mut from: TcpStream, mut to: TcpStream, mut look: impl FnMut(&[u8]) -> bool) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if !look(&buffer[..count]) || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    for end in [from, to] {
        let _ = end.shutdown(Shutdown::Both);
    }
}
