//! A connection that reads replies of any bytes.

use crate::resp::{self, Answer};
use redis::Cmd;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;
use testbed::{Server, patience};

const CHUNK: usize = 1 << 14;

pub(crate) struct Wire {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Wire {
    pub(crate) fn to(server: &Server) -> Self {
        let stream =
            TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).expect("a connection");
        let patience = Some(patience(Duration::from_secs(30)));
        stream.set_read_timeout(patience).expect("a timeout");
        Self {
            stream,
            unread: Vec::new(),
        }
    }

    /// Sends all of these commands at once. As many replies will come.
    pub(crate) fn send<'a>(&mut self, commands: impl IntoIterator<Item = &'a Cmd>) {
        let packed = commands.into_iter().flat_map(Cmd::get_packed_command);
        let packed: Vec<u8> = packed.collect();
        self.stream.write_all(&packed).expect("a connection");
    }

    /// Reads the next reply.
    pub(crate) fn receive(&mut self) -> Answer {
        let mut chunk = [0; CHUNK];
        loop {
            if let Some(answer) = resp::take(&mut self.unread) {
                return answer;
            }
            match self.stream.read(&mut chunk) {
                Ok(0) => panic!("a reply expected, and the connection has ended"),
                Ok(count) => self.unread.extend(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => panic!("a reply expected: {error}"),
            }
        }
    }

    /// Sends these commands at once, and reads their replies.
    pub(crate) fn ask(&mut self, commands: &[Cmd]) -> Vec<Answer> {
        self.send(commands);
        commands.iter().map(|_| self.receive()).collect()
    }
}
