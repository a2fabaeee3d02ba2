//! A connection that reads replies of any bytes: a server repeats in its errors what it was sent,
//! and the client library reads only errors that are text.

use redis::{Cmd, Value};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;
use testbed::{Server, patience};

/// A value, or an error's line.
pub(crate) type Answer = Result<Value, String>;

pub(crate) struct Wire(BufReader<TcpStream>);

impl Wire {
    pub(crate) fn to(server: &Server) -> Self {
        let stream =
            TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).expect("a connection");
        let patience = Some(patience(Duration::from_secs(30)));
        stream.set_read_timeout(patience).expect("a timeout");
        Self(BufReader::new(stream))
    }

    /// Sends all of these commands at once. As many replies will come.
    pub(crate) fn send<'a>(&mut self, commands: impl IntoIterator<Item = &'a Cmd>) {
        let packed = commands.into_iter().flat_map(Cmd::get_packed_command);
        let packed: Vec<u8> = packed.collect();
        self.0.get_mut().write_all(&packed).expect("a connection");
    }

    /// Reads the next reply. An error within an array is read as a simple string.
    pub(crate) fn receive(&mut self) -> Answer {
        let line = self.line();
        let (kind, rest) = line.split_at(1);
        let number = || -> i64 {
            rest.parse()
                .unwrap_or_else(|_| panic!("a number in {line:?}"))
        };
        Ok(match kind {
            "-" => return Err(rest.to_owned()),
            "+" if rest == "OK" => Value::Okay,
            "+" => Value::SimpleString(rest.to_owned()),
            ":" => Value::Int(number()),
            "$" => match usize::try_from(number()) {
                Ok(length) => Value::BulkString(self.bytes(length)),
                Err(_) => Value::Nil,
            },
            "*" if number() < 0 => Value::Nil,
            "*" => Value::Array(
                (0..number())
                    .map(|_| self.receive().unwrap_or_else(Value::SimpleString))
                    .collect(),
            ),
            _ => panic!("not a reply: {line:?}"),
        })
    }

    fn line(&mut self) -> String {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).expect("a reply");
        let line = line.strip_suffix(b"\r\n").expect("a whole line");
        String::from_utf8_lossy(line).into_owned()
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length + 2];
        self.0.read_exact(&mut bytes).expect("a whole reply");
        assert_eq!(bytes.split_off(length), b"\r\n", "the end of a bulk string");
        bytes
    }
}
