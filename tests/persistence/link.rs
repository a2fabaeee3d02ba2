//! Both ends of a replication link: what a primary sends is kept, and later sent to a replica.

use crate::*;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

/// A replica that only listens.
pub(crate) struct Replica {
    link: BufReader<TcpStream>,
    start: Vec<u8>,
    /// The primary's offset at the start.
    offset: i64,
}

impl Replica {
    /// Has the primary synchronise it.
    #[track_caller]
    pub(crate) fn of(primary: &Server) -> Self {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, primary.port()));
        let mut link = BufReader::new(stream.expect("a connection"));
        let request = b"PSYNC ? -1\r\n";
        link.get_mut().write_all(request).expect("a link");
        let reply = line(&mut link).expect("a reply");
        let offset = reply.strip_prefix("+FULLRESYNC ").and_then(|rest| {
            let (_, offset) = rest.split_once(' ')?;
            offset.parse().ok()
        });
        let offset = offset.unwrap_or_else(|| panic!("a full resynchronisation, not {reply:?}"));
        // Empty lines until the file is ready.
        let length = loop {
            let head = line(&mut link).expect("a file");
            if let Some(length) = head.strip_prefix('$') {
                break length.parse().expect("a length");
            }
        };
        let mut start = vec![0; length];
        link.read_exact(&mut start).expect("a file");
        Self {
            link,
            start,
            offset,
        }
    }

    /// The RDB file that it started with, and all that the primary has sent since.
    #[track_caller]
    pub(crate) fn received(&mut self, primary: &Server) -> (Vec<u8>, Vec<u8>) {
        let end = primary.number("replication", "master_repl_offset");
        let length = usize::try_from(end - self.offset).expect("a short stream");
        let mut stream = vec![0; length];
        self.link.read_exact(&mut stream).expect("the stream");
        (self.start.clone(), stream)
    }
}

/// A primary that sends one replica what is kept, and nothing else.
pub(crate) struct Primary {
    port: u16,
    end: u64,
}

/// An offset to start at.
const OFFSET: u64 = 1000;

impl Primary {
    pub(crate) fn of(start: Vec<u8>, stream: Vec<u8>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let end = OFFSET + stream.len() as u64;
        thread::spawn(move || {
            let (link, _) = listener.accept().expect("a replica");
            // It ends when the replica does.
            let _ = serve(&mut BufReader::new(link), &start, &stream);
        });
        Self { port, end }
    }

    /// A server that has taken the whole stream.
    #[track_caller]
    pub(crate) fn replica(&self, settings: Builder) -> Server {
        let primary = format!("127.0.0.1 {}", self.port);
        let replica = settings.config("replicaof", &primary).start();
        let offset = || replica.info_field("replication", "slave_repl_offset");
        let taken = || offset().parse() == Ok(self.end);
        eventually(taken, "the replica to take the whole stream");
        replica
    }
}

/// Answers a replica's questions, until it hangs up.
fn serve(link: &mut BufReader<TcpStream>, start: &[u8], stream: &[u8]) -> io::Result<()> {
    loop {
        let command = command(link)?;
        match command[0].as_str() {
            "PING" => link.get_mut().write_all(b"+PONG\r\n")?,
            "REPLCONF" if command[1].eq_ignore_ascii_case("ACK") => {}
            "PSYNC" => {
                let id = "0123456789".repeat(4);
                let head = format!("+FULLRESYNC {id} {OFFSET}\r\n${}\r\n", start.len());
                let reply = [head.as_bytes(), start, stream].concat();
                link.get_mut().write_all(&reply)?;
            }
            _ => link.get_mut().write_all(b"+OK\r\n")?,
        }
    }
}

/// A command as clients send it.
fn command(link: &mut BufReader<TcpStream>) -> io::Result<Vec<String>> {
    let number = |line: &str| line[1..].parse::<usize>().map_err(io::Error::other);
    let mut words = Vec::new();
    for _ in 0..number(&line(link)?)? {
        // Its length, and the word itself: a replica's words have no line breaks.
        line(link)?;
        words.push(line(link)?);
    }
    Ok(words)
}

fn line(link: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut text = String::new();
    if link.read_line(&mut text)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(text.trim_end().to_owned())
}
