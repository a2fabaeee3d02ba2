//! A proxy in front of a server: it passes requests on and loses or delays their replies, holds requests
//! back, cuts or resets connections, or lets nothing through at all.

use crate::server::Port;
use rustix::net::sockopt::set_socket_linger;
use serde::Deserialize;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread;
use std::time::Duration;

/// The fate of a request, or of the reply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The connection ends in place of the reply.
    Cut,
    /// The connection is reset in place of the reply.
    Reset,
    /// The connection is reset in the middle of the request, of which the server gets a half.
    ResetRequest,
    /// The reply never comes; the connection stays open.
    Keep,
    /// The reply comes so many milliseconds later.
    Delay(u64),
    /// The reply never comes, nor does any other on any connection, until [`Proxy::speak`].
    Silence,
}

/// Where [`Proxy::cut`] cuts a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// After half of what the client sends next.
    Request,
    /// After half of what the server answers next: the command has been carried out.
    Reply,
    /// Nowhere: from now on all bytes get lost, in both directions. The client gives its end up after a while; the
    /// server is told nothing.
    Neither,
}

/// For how long a client waits on a connection that is half-open.
const GIVEN_UP: Duration = Duration::from_millis(700);

/// Forwards connections to a port, until it is dropped.
pub struct Proxy {
    port: Port,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Where new connections lead.
    target: AtomicU16,
    injected: Mutex<Option<Injected>>,
    lost: AtomicUsize,
    /// Replies are lost.
    is_silent: AtomicBool,
    /// Requests too.
    swallows: AtomicBool,
    /// Requests with these bytes stay here.
    held_words: Mutex<Option<String>>,
    let_go: Condvar,
    held_back: AtomicUsize,
    is_closed: AtomicBool,
    pipes: Mutex<Vec<Weak<Pipe>>>,
}

/// One connection, by its two ends.
struct Pipe {
    client: TcpStream,
    server: TcpStream,
    /// The fate of the next reply.
    next: Mutex<Option<Fault>>,
    /// Where it is to be cut.
    cut: Mutex<Option<Cut>>,
    /// It has lost bytes in silence. As TCP never loses any and continues, it passes no more on.
    has_lost: AtomicBool,
    is_reset: AtomicBool,
    /// No byte gets through any more, neither way.
    is_forgotten: AtomicBool,
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
        let port = Port::free();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.number())).expect("a port");
        let shared = Arc::new(Shared {
            target: AtomicU16::new(target),
            ..Shared::default()
        });
        let of_all = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if of_all.is_closed.load(SeqCst) {
                    return;
                }
                let target = of_all.target.load(SeqCst);
                if let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)) {
                    Pipe::open(client, server, &of_all);
                }
            }
        });
        Self { port, shared }
    }

    /// Where clients connect to.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// From now on new connections lead to this port. Those that are open stay where they are.
    pub fn redirect(&self, target: u16) {
        self.shared.target.store(target, SeqCst);
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

    /// From now on requests get through, and no reply returns.
    pub fn fall_silent(&self) {
        self.shared.is_silent.store(true, SeqCst);
    }

    /// From now on nothing gets through, neither way; not even that an end has closed.
    pub fn swallow(&self) {
        self.shared.swallows.store(true, SeqCst);
        self.fall_silent();
    }

    /// Loses all bytes of the connections that are open, without a sign, as a gateway that has forgotten them. New
    /// ones work.
    pub fn forget(&self) {
        for pipe in self.shared.open_pipes() {
            pipe.forget();
        }
    }

    /// Cuts one of the open connections, the one with this number in turn; whether there was one.
    pub fn cut(&self, which: usize, cut: Cut) -> bool {
        let open = self.shared.open_pipes();
        if open.is_empty() {
            return false;
        }
        let pipe = Arc::clone(&open[which % open.len()]);
        if cut == Cut::Neither {
            pipe.forget();
            thread::spawn(move || {
                thread::sleep(GIVEN_UP);
                let _ = pipe.client.shutdown(Shutdown::Both);
            });
        } else {
            *pipe.cut.lock().expect("a cut") = Some(cut);
        }
        true
    }

    /// All gets through again. A connection that has lost something in between ends.
    pub fn speak(&self) {
        self.shared.swallows.store(false, SeqCst);
        self.shared.is_silent.store(false, SeqCst);
        for pipe in self.shared.open_pipes() {
            if pipe.has_lost.load(SeqCst) {
                pipe.close();
            }
        }
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
        for pipe in self.shared.open_pipes() {
            pipe.close();
        }
        // Wakes the listener, which then ends.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port()));
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

    /// How much of a request is passed on, and whether its connection does.
    fn request(&self, request: &[u8], pipe: &Pipe) -> (usize, bool) {
        let fault = self.see(request);
        if self.swallows.load(SeqCst) || pipe.is_forgotten.load(SeqCst) {
            pipe.has_lost.store(true, SeqCst);
            return (0, true);
        }
        if pipe.is_cut(Cut::Request) {
            // First, so that no answer to the half slips through.
            let _ = pipe.client.shutdown(Shutdown::Both);
            return (request.len() / 2, false);
        }
        if fault == Some(Fault::ResetRequest) {
            pipe.reset();
            return (request.len() / 2, false);
        }
        if fault.is_some() {
            *pipe.next.lock().expect("a fault") = fault;
        }
        (request.len(), true)
    }

    /// The same of a reply.
    fn reply(&self, reply: &[u8], pipe: &Pipe) -> (usize, bool) {
        if pipe.is_cut(Cut::Reply) {
            self.lost.fetch_add(1, SeqCst);
            return (reply.len() / 2, false);
        }
        let fault = pipe.next.lock().expect("a fault").take();
        match fault {
            Some(Fault::Cut | Fault::Keep | Fault::Reset) => {
                self.lost.fetch_add(1, SeqCst);
            }
            Some(Fault::Delay(ms)) => thread::sleep(Duration::from_millis(ms)),
            Some(Fault::Silence) => self.is_silent.store(true, SeqCst),
            Some(Fault::ResetRequest) | None => {}
        }
        match fault {
            Some(Fault::Cut) => (0, false),
            Some(Fault::Reset) => {
                pipe.reset();
                (0, false)
            }
            Some(Fault::Keep) => (0, true),
            _ if self.is_silent.load(SeqCst) || pipe.has_lost.load(SeqCst) => {
                pipe.has_lost.store(true, SeqCst);
                (0, true)
            }
            _ => (reply.len(), true),
        }
    }

    fn open_pipes(&self) -> Vec<Arc<Pipe>> {
        let mut pipes = self.pipes.lock().expect("pipes");
        pipes.retain(|pipe| pipe.strong_count() > 0);
        pipes.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Pipe {
    fn open(client: TcpStream, server: TcpStream, shared: &Arc<Shared>) {
        for end in [&client, &server] {
            let _ = end.set_nodelay(true);
        }
        let pipe = Arc::new(Self {
            client,
            server,
            next: Mutex::new(None),
            cut: Mutex::new(None),
            has_lost: AtomicBool::new(false),
            is_reset: AtomicBool::new(false),
            is_forgotten: AtomicBool::new(false),
        });
        let mut pipes = shared.pipes.lock().expect("pipes");
        pipes.retain(|pipe| pipe.strong_count() > 0);
        pipes.push(Arc::downgrade(&pipe));
        drop(pipes);
        let (requests, shared_too) = (Arc::clone(&pipe), Arc::clone(shared));
        thread::spawn(move || {
            let look = |bytes: &[u8]| shared_too.request(bytes, &requests);
            requests.forward(&requests.client, &requests.server, look, &shared_too);
        });
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            let look = |bytes: &[u8]| shared.reply(bytes, &pipe);
            pipe.forward(&pipe.server, &pipe.client, look, &shared);
        });
    }

    /// Copies, of each piece as much as `look` says, until that says that it is over or an end closes; then
    /// both are closed.
    fn forward(
        &self,
        mut from: &TcpStream,
        mut to: &TcpStream,
        look: impl Fn(&[u8]) -> (usize, bool),
        shared: &Shared,
    ) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let (kept, goes_on) = look(&buffer[..count]);
            if to.write_all(&buffer[..kept]).is_err() || !goes_on {
                break;
            }
        }
        let is_unheard = shared.swallows.load(SeqCst) || self.is_forgotten.load(SeqCst);
        if is_unheard && !shared.is_closed.load(SeqCst) {
            self.has_lost.store(true, SeqCst); // the other end does not hear of it
        } else {
            self.close();
        }
    }

    fn is_cut(&self, cut: Cut) -> bool {
        *self.cut.lock().expect("a cut") == Some(cut)
    }

    fn forget(&self) {
        self.has_lost.store(true, SeqCst);
        self.is_forgotten.store(true, SeqCst);
    }

    fn close(&self) {
        if self.is_reset.load(SeqCst) {
            return;
        }
        for end in [&self.client, &self.server] {
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    /// Both ends are reset when nobody reads from them any more, which is at once.
    fn reset(&self) {
        self.is_reset.store(true, SeqCst);
        for end in [&self.client, &self.server] {
            let _ = set_socket_linger(end, Some(Duration::ZERO));
            let _ = end.shutdown(Shutdown::Read);
        }
    }
}
