//! A proxy of a server, which cuts connections in the middle of a request or of a reply, or leaves them half-open.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Where a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// After half of what the client sends next.
    Request,
    /// After half of what the server answers next: the command has been carried out.
    Reply,
    /// Nowhere: from now on all bytes get lost, in both directions. The client gives its end up after a while;
    /// the server is told nothing.
    Neither,
}

const NONE: u8 = 0;
const REQUEST: u8 = 1;
const REPLY: u8 = 2;
const NEITHER: u8 = 3;

/// For how long a client waits on a connection that is half-open.
const GIVEN_UP: Duration = Duration::from_millis(700);

/// Forwards connections to one port until it is dropped.
pub(crate) struct Proxy {
    port: u16,
    open: Arc<Mutex<Vec<Arc<Pipe>>>>,
    lost_replies: Arc<AtomicU64>,
}

/// One connection: what is to happen to it, and its two ends.
struct Pipe {
    order: AtomicU8,
    ends: [TcpStream; 2],
    lost_replies: Arc<AtomicU64>,
}

impl Proxy {
    /// A proxy for this port.
    pub(crate) fn start(target: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let open = Arc::new(Mutex::new(Vec::new()));
        let pipes = Arc::downgrade(&open);
        let lost_replies = Arc::new(AtomicU64::new(0));
        let lost = Arc::clone(&lost_replies);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Some(pipes) = pipes.upgrade() else { return };
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)) else {
                    continue; // the client sees its connection closed, as of a server that is down
                };
                if let Ok(pipe) = Pipe::open(client, server, Arc::clone(&lost)) {
                    pipes.lock().expect("pipes").push(pipe);
                }
            }
        });
        Self {
            port,
            open,
            lost_replies,
        }
    }

    /// Where clients connect to.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// How many replies have been cut so far.
    pub(crate) fn lost_replies(&self) -> u64 {
        self.lost_replies.load(SeqCst)
    }

    /// Cuts one of the open connections, the one with this number in turn; whether there was one.
    pub(crate) fn cut(&self, which: usize, cut: Cut) -> bool {
        let mut open = self.open.lock().expect("pipes");
        open.retain(|pipe| pipe.ends[0].peer_addr().is_ok());
        if open.is_empty() {
            return false;
        }
        let pipe = &open[which % open.len()];
        let order = match cut {
            Cut::Request => REQUEST,
            Cut::Reply => REPLY,
            Cut::Neither => NEITHER,
        };
        if cut == Cut::Neither {
            let pipe = Arc::clone(pipe);
            thread::spawn(move || {
                thread::sleep(GIVEN_UP);
                let _ = pipe.ends[0].shutdown(Shutdown::Both);
            });
        }
        pipe.order.store(order, SeqCst);
        true
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        for pipe in self.open.lock().expect("pipes").drain(..) {
            pipe.close();
        }
        self.open = Arc::default();
        // The listener looks at its last connection and finds nobody to serve.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Pipe {
    fn open(
        client: TcpStream,
        server: TcpStream,
        lost_replies: Arc<AtomicU64>,
    ) -> std::io::Result<Arc<Self>> {
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from_client, from_server) = (client.try_clone()?, server.try_clone()?);
        let pipe = Arc::new(Self {
            order: AtomicU8::new(NONE),
            ends: [client, server],
            lost_replies,
        });
        for (from, order, to) in [(from_client, REQUEST, 1), (from_server, REPLY, 0)] {
            let pipe = Arc::clone(&pipe);
            thread::spawn(move || pipe.forward(from, order, to));
        }
        Ok(pipe)
    }

    /// Copies one direction until either end closes, or until the cut that is meant for it. Of a connection that is
    /// half-open each end closes for itself.
    fn forward(&self, mut from: TcpStream, order: u8, to: usize) {
        let mut buffer = [0; 4096];
        while let Ok(count) = from.read(&mut buffer) {
            let ordered = self.order.load(SeqCst);
            if ordered == NEITHER {
                if count == 0 {
                    break;
                }
                continue;
            }
            let is_cut = ordered == order;
            if is_cut && order == REPLY && count > 0 {
                self.lost_replies.fetch_add(1, SeqCst);
            }
            if is_cut {
                // First, so that no answer to the half slips through.
                let _ = self.ends[1 - to].shutdown(Shutdown::Both);
            }
            let kept = if is_cut { count / 2 } else { count };
            let written = (&self.ends[to]).write_all(&buffer[..kept]);
            if count == 0 || is_cut || written.is_err() {
                break;
            }
        }
        if self.order.load(SeqCst) == NEITHER {
            let _ = self.ends[1 - to].shutdown(Shutdown::Both);
        } else {
            self.close();
        }
    }

    fn close(&self) {
        for end in &self.ends {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cut, Proxy};
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::thread;

    /// What the server got and what the client got of "question" and "answered", and how many replies
    /// were lost.
    fn talk(cut: Option<Cut>) -> (String, String, u64) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let proxy = Proxy::start(listener.local_addr().expect("an address").port());
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut got = vec![0; 8];
            let count = stream.read(&mut got).expect("a request");
            let _ = stream.write_all(b"answered");
            got.truncate(count);
            String::from_utf8(got).expect("text")
        });
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).expect("a proxy");
        if let Some(cut) = cut {
            while !proxy.cut(0, cut) {
                thread::yield_now();
            }
        }
        client.write_all(b"question").expect("a proxy");
        let mut got = String::new();
        let mut answer = client.take(8);
        let _ = answer.read_to_string(&mut got);
        let server = server.join().expect("a server");
        (server, got, proxy.lost_replies())
    }

    #[test]
    fn a_cut_loses_the_second_half() {
        let told = |a: &str, b: &str, lost: u64| (a.to_owned(), b.to_owned(), lost);
        assert_eq!(talk(None), told("question", "answered", 0));
        // Often, for the answer to half a request is quick.
        for _ in 0..200 {
            assert_eq!(talk(Some(Cut::Request)), told("ques", "", 0));
        }
        assert_eq!(talk(Some(Cut::Reply)), told("question", "answ", 1));
    }

    #[test]
    fn half_open_tells_the_server_nothing() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let proxy = Proxy::start(listener.local_addr().expect("an address").port());
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).expect("a proxy");
        let (mut server, _) = listener.accept().expect("a client");
        while !proxy.cut(0, Cut::Neither) {
            thread::yield_now();
        }
        client.write_all(b"question").expect("a proxy");
        server.write_all(b"answered").expect("a proxy");
        assert_eq!(client.read_to_end(&mut Vec::new()).expect("its end"), 0);
        let moment = Some(std::time::Duration::from_millis(50));
        server.set_read_timeout(moment).expect("a time limit");
        let silence = server.read(&mut [0; 8]).expect_err("nothing");
        assert_eq!(silence.kind(), std::io::ErrorKind::WouldBlock);
    }
}
