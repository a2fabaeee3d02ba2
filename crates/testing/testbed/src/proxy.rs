//! A proxy in front of a server: it passes requests on and loses or delays their replies, or holds requests
//! back.

use serde::Deserialize;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// What becomes of the reply to a request, which always reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The connection ends in its place.
    Cut,
    /// It never comes; the connection stays open.
    Keep,
    /// It comes so many milliseconds later.
    Delay(u64),
    /// It never comes, nor does any other reply on any connection, until [`Proxy::speak`].
    Silence,
}

/// Forwards connections to a port, until it is dropped.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    injected: Mutex<Option<Injected>>,
    lost: AtomicUsize,
    is_silent: AtomicBool,
    /// Requests with these bytes stay here.
    held_words: Mutex<Option<String>>,
    let_go: Condvar,
    held_back: AtomicUsize,
    is_closed: AtomicBool,
    clients: Mutex<Vec<TcpStream>>,
}

/// A fault for the next requests that have all these words in them.
struct Injected {
    fault: Fault,
    words: Vec<String>,
    left: usize,
}

impl Proxy {
    /// A proxy for a loopback port.
    pub fn start(target: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared::default());
        let of_all = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if of_all.is_closed.load(SeqCst) {
                    return;
                }
                if let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)) {
                    connect(client, server, &of_all);
                }
            }
        });
        Self { port, shared }
    }

    /// Where clients connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Does this with the replies to the next requests, so many, that have all these words in them. It takes
    /// the place of what was injected before.
    pub fn inject(&self, fault: Fault, words: &str, times: usize) {
        let words = words.split_whitespace().map(str::to_owned).collect();
        *self.shared.injected.lock().expect("a fault") = (times > 0).then_some(Injected {
            fault,
            words,
            left: times,
        });
    }

    /// Ends the connection of the next such request in place of the reply.
    pub fn lose_reply_to(&self, command: &str) {
        self.inject(Fault::Cut, command, 1);
    }

    /// For how many requests the injected fault still waits.
    pub fn pending(&self) -> usize {
        let injected = self.shared.injected.lock().expect("a fault");
        injected.as_ref().map_or(0, |injected| injected.left)
    }

    /// How many replies have been cut or kept.
    pub fn lost(&self) -> usize {
        self.shared.lost.load(SeqCst)
    }

    /// From now on requests get through, and no reply comes back.
    pub fn fall_silent(&self) {
        self.shared.is_silent.store(true, SeqCst);
    }

    /// Replies come back again.
    pub fn speak(&self) {
        self.shared.is_silent.store(false, SeqCst);
    }

    /// Holds requests with these bytes back.
    pub fn hold_back(&self, command: &str) {
        *self.shared.held_words.lock().expect("words") = Some(command.to_owned());
    }

    /// How many requests have been held back.
    pub fn held_back(&self) -> usize {
        self.shared.held_back.load(SeqCst)
    }

    /// Sends on what was held back, also for clients that have gone.
    pub fn let_go(&self) {
        *self.shared.held_words.lock().expect("words") = None;
        self.shared.let_go.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, SeqCst);
        for client in self.shared.clients.lock().expect("clients").drain(..) {
            let _ = client.shutdown(Shutdown::Both);
        }
        // Wakes the listener, which then ends.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Shared {
    /// Looks at a request, for as long as it is held back; gives what becomes of its reply.
    fn see(&self, request: &[u8]) -> Option<Fault> {
        let text = String::from_utf8_lossy(request);
        let is_held = |words: &Option<String>| words.as_ref().is_some_and(|it| text.contains(it));
        let mut held = self.held_words.lock().expect("words");
        self.held_back
            .fetch_add(usize::from(is_held(&held)), SeqCst);
        while is_held(&held) {
            held = self.let_go.wait(held).expect("words");
        }
        drop(held);
        let mut injected = self.injected.lock().expect("a fault");
        let meant = injected
            .as_mut()
            .filter(|it| it.words.iter().all(|word| text.contains(word)))?;
        meant.left -= 1;
        let fault = meant.fault;
        if meant.left == 0 {
            *injected = None;
        }
        Some(fault)
    }

    /// How much of a reply goes on; none when its connection is to end.
    fn answer(&self, reply: &[u8], fault: Option<Fault>) -> Option<usize> {
        match fault {
            Some(Fault::Cut | Fault::Keep) => {
                self.lost.fetch_add(1, SeqCst);
            }
            Some(Fault::Delay(ms)) => thread::sleep(Duration::from_millis(ms)),
            Some(Fault::Silence) => self.is_silent.store(true, SeqCst),
            None => {}
        }
        match fault {
            Some(Fault::Cut) => None,
            Some(Fault::Keep) => Some(0),
            _ if self.is_silent.load(SeqCst) => Some(0),
            _ => Some(reply.len()),
        }
    }
}

fn connect(client: TcpStream, server: TcpStream, shared: &Arc<Shared>) {
    let fault_of_next = Arc::new(Mutex::new(None));
    let clone = |stream: &TcpStream| stream.try_clone().expect("a stream");
    let (from_client, to_server) = (clone(&client), clone(&server));
    shared.clients.lock().expect("clients").push(clone(&client));
    let (seen_by, set) = (Arc::clone(shared), Arc::clone(&fault_of_next));
    thread::spawn(move || {
        forward(from_client, to_server, |request| {
            if let Some(fault) = seen_by.see(request) {
                *set.lock().expect("a fault") = Some(fault);
            }
            Some(request.len())
        });
    });
    let shared = Arc::clone(shared);
    thread::spawn(move || {
        forward(server, client, |reply| {
            let fault = fault_of_next.lock().expect("a fault").take();
            shared.answer(reply, fault)
        });
    });
}

/// Copies, of each piece as much as `look` says, until that says none or an end closes; then both are
/// closed.
fn forward(mut from: TcpStream, mut to: TcpStream, mut look: impl FnMut(&[u8]) -> Option<usize>) {
    let mut buffer = vec![0; 1 << 16];
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
