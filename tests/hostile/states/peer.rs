//! A client's connection that never waits: what the server makes of what it sends shows elsewhere.

use super::catalogue::Cut;
use crate::resp::{self, Answer};
use redis::Value;
use socket2::SockRef;
use std::collections::HashSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::time::Duration;
use testbed::{Grant, Server};

const CHUNK: usize = 1 << 14;
const GARBAGE: &[u8] = b"*1\r\n:what\r\n";

pub(crate) struct Peer {
    stream: Option<TcpStream>,
    /// As the server lists it.
    pub(crate) address: String,
    /// The tokens that it has read, each with the owner.
    pub(crate) told: HashSet<(Vec<u8>, i64)>,
    /// The server has closed the connection, or it was reset from here.
    pub(crate) ended: bool,
    /// The last of these tokens.
    pub(crate) token: i64,
    unsent: Vec<u8>,
    unread: Vec<u8>,
    /// What comes is no reply any more, but the stream of a replica.
    follows: bool,
}

impl Peer {
    pub(crate) fn of(server: &Server) -> Self {
        let stream =
            TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).expect("a connection");
        stream.set_nonblocking(true).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        let address = stream.local_addr().expect("an address").to_string();
        Self {
            stream: Some(stream),
            address,
            told: HashSet::new(),
            ended: false,
            token: 1,
            unsent: Vec::new(),
            unread: Vec::new(),
            follows: false,
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.unsent.extend(bytes);
        self.push();
    }

    /// Sends and reads as much as can be at the moment.
    pub(crate) fn pump(&mut self) {
        self.push();
        let mut chunk = [0; CHUNK];
        while let Some(stream) = &mut self.stream {
            match stream.read(&mut chunk) {
                Ok(0) => self.close(),
                Ok(count) => self.unread.extend(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.close(),
            }
        }
        while !self.follows {
            // Sent to a replica that waits for a file, so that it does not give up.
            let blank = self.unread.iter().take_while(|&&byte| byte == b'\n');
            drop(self.unread.drain(..blank.count()));
            let Some(answer) = resp::take(&mut self.unread) else {
                return;
            };
            self.read(answer);
        }
        self.unread.clear();
    }

    pub(crate) fn cut(&mut self, cut: Cut) {
        match (cut, &self.stream) {
            (Cut::Garbage, _) => self.send(GARBAGE),
            // An error: the server was faster.
            (Cut::Half, Some(stream)) => drop(stream.shutdown(Shutdown::Write)),
            (Cut::Reset, Some(stream)) => {
                let socket = SockRef::from(stream);
                socket.set_linger(Some(Duration::ZERO)).expect("a socket");
                self.close();
            }
            (_, None) => {}
        }
    }

    fn close(&mut self) {
        self.stream = None;
        self.ended = true;
    }

    fn push(&mut self) {
        while let Some(stream) = &mut self.stream
            && !self.unsent.is_empty()
        {
            match stream.write(&self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The server is gone. What it sent before is still to be read.
                Err(_) => self.unsent.clear(),
            }
        }
    }

    fn read(&mut self, answer: Answer) {
        match answer {
            Ok(Value::SimpleString(text)) if text.starts_with("FULLRESYNC") => self.follows = true,
            Ok(value) => self.learn(&value),
            Err(text) => no_panic(&text),
        }
    }

    /// Looks for grants in a reply, however deep.
    fn learn(&mut self, value: &Value) {
        match value {
            Value::Array(values) | Value::Set(values) => {
                if let Ok(grant) = Grant::try_from(value.clone()) {
                    self.token = grant.token;
                    self.told.insert((grant.owner, grant.token));
                }
                for value in values {
                    self.learn(value);
                }
            }
            Value::Map(pairs) => {
                for (_, value) in pairs {
                    self.learn(value);
                }
            }
            Value::SimpleString(text) => no_panic(text),
            _ => {}
        }
    }
}

impl Drop for Peer {
    /// Leaves nothing behind, neither here nor on the server.
    fn drop(&mut self) {
        self.cut(Cut::Reset);
    }
}

fn no_panic(text: &str) {
    assert!(!text.contains("fault inside"), "{text:?} was replied");
}
