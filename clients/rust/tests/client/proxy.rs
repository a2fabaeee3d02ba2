//! A door to a server: it lets requests through and loses their answers, or keeps requests back.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// Forwards connections to a port.
pub(crate) struct Proxy {
    port: u16,
    orders: Arc<Orders>,
}

#[derive(Default)]
struct Orders {
    /// The answer to the next request with these bytes is lost.
    lose: Mutex<Option<String>>,
    lost: AtomicUsize,
    /// No answer comes back at all.
    is_silent: AtomicBool,
    /// Requests with these bytes stay here.
    hold_back: Mutex<Option<String>>,
    let_go: Condvar,
    held_back: AtomicUsize,
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
        *self.orders.lose.lock().expect("orders") = Some(command.to_owned());
    }

    /// How many answers have been lost.
    pub(crate) fn lost(&self) -> usize {
        self.orders.lost.load(SeqCst)
    }

    /// From now on requests get through, and no answer comes back.
    pub(crate) fn fall_silent(&self) {
        self.orders.is_silent.store(true, SeqCst);
    }

    /// Answers come back again.
    pub(crate) fn speak(&self) {
        self.orders.is_silent.store(false, SeqCst);
    }

    /// Keeps such requests back.
    pub(crate) fn hold_back(&self, command: &str) {
        *self.orders.hold_back.lock().expect("orders") = Some(command.to_owned());
    }

    /// How many requests have been kept back.
    pub(crate) fn held_back(&self) -> usize {
        self.orders.held_back.load(SeqCst)
    }

    /// Sends on what was kept back, also for clients that have gone.
    pub(crate) fn let_go(&self) {
        *self.orders.hold_back.lock().expect("orders") = None;
        self.orders.let_go.notify_all();
    }
}

impl Orders {
    /// Looks at a request; whether its answer is to be lost.
    fn see(&self, request: &[u8]) -> bool {
        let text = String::from_utf8_lossy(request);
        let is_meant = |order: &Option<String>| {
            let command = order.as_ref();
            command.is_some_and(|command| text.contains(command.as_str()))
        };
        let mut held = self.hold_back.lock().expect("orders");
        self.held_back
            .fetch_add(usize::from(is_meant(&held)), SeqCst);
        while is_meant(&held) {
            held = self.let_go.wait(held).expect("orders");
        }
        drop(held);
        let mut lose = self.lose.lock().expect("orders");
        let is_lost = is_meant(&lose);
        if is_lost {
            *lose = None;
        }
        is_lost
    }
}

fn connect(client: TcpStream, server: TcpStream, orders: &Arc<Orders>) {
    let lose_next = Arc::new(AtomicBool::new(false));
    let clone = |stream: &TcpStream| stream.try_clone().expect("a stream");
    let (from_client, to_server) = (clone(&client), clone(&server));
    let (seen_by, set) = (Arc::clone(orders), Arc::clone(&lose_next));
    thread::spawn(move || {
        forward(from_client, to_server, |request| {
            if seen_by.see(request) {
                set.store(true, SeqCst);
            }
            Some(request.len())
        });
    });
    let orders = Arc::clone(orders);
    thread::spawn(move || {
        forward(server, client, |answer| {
            let is_lost = lose_next.load(SeqCst);
            orders.lost.fetch_add(usize::from(is_lost), SeqCst);
            let is_silent = orders.is_silent.load(SeqCst);
            (!is_lost).then_some(if is_silent { 0 } else { answer.len() })
        });
    });
}

/// Copies, of each piece as much as `look` says, until that says none or an end closes; then both are
/// closed.
fn forward(mut from: TcpStream, mut to: TcpStream, mut look: impl FnMut(&[u8]) -> Option<usize>) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let Some(kept) = look(&buffer[..count]) else {
            break;
        };
        if to.write_all(&buffer[..kept]).is_err() {
            break;
        }
    }
    for end in [from, to] {
        let _ = end.shutdown(Shutdown::Both);
    }
}
