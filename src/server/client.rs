//! What can be found out of a client's connection: the server tells it in `CLIENT LIST`, and the
//! system by the socket that is named there.

use std::ffi::{c_int, c_short};
use std::io;

use super::Context;

/// The socket of a client that is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Socket(c_int);

impl Socket {
    /// Whether the other end has closed, or the connection is broken, also where the server has not
    /// read that yet. In doubt it has not.
    pub(crate) fn peer_is_gone(self) -> bool {
        // What has no such flag tells a peer that has closed by the end of the data.
        #[cfg(target_os = "linux")]
        const CLOSED: c_short = libc::POLLRDHUP;
        #[cfg(not(target_os = "linux"))]
        const CLOSED: c_short = 0;
        let mut polled = libc::pollfd {
            fd: self.0,
            events: CLOSED,
            revents: 0,
        };
        loop {
            // SAFETY: one entry, ours for the length of the call, which does not wait.
            let ready = unsafe { libc::poll(&raw mut polled, 1, 0) };
            if ready >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return ready > 0 && polled.revents & (CLOSED | libc::POLLHUP | libc::POLLERR) != 0;
            }
        }
    }
}

/// The flags of a client that gets messages: it is subscribed, tracks keys or monitors. And of one whose
/// last command has not run: it is in a transaction, or blocked.
const MORE_THAN_REPLIES: [char; 5] = ['P', 't', 'O', 'x', 'b'];

impl Context<'_> {
    /// The sockets of these clients, as far as the server tells.
    pub(crate) fn sockets(self, clients: &[u64]) -> Vec<(u64, Socket)> {
        let lines = self.client_lines(clients).unwrap_or_default();
        lines.lines().filter_map(socket).collect()
    }

    /// Whether the reply to the last command of a client lies unsent, at least in part: the command
    /// was this one, and the server still has output for the client. Not told of one that gets
    /// messages beside its replies, or whose last command was put off.
    pub(crate) fn reply_is_unsent(self, client: u64, command: &str) -> bool {
        let Some(line) = self.client_lines(&[client]) else {
            return false;
        };
        let holds = |name| field(&line, name).is_some_and(|size| size != "0");
        let asks_or_gets_more =
            field(&line, "flags").is_none_or(|flags| flags.contains(MORE_THAN_REPLIES));
        !asks_or_gets_more && field(&line, "cmd") == Some(command) && (holds("obl") || holds("oll"))
    }
}

/// A client and its socket, as a line of `CLIENT LIST` tells them.
fn socket(line: &str) -> Option<(u64, Socket)> {
    let client = field(line, "id")?.parse().ok()?;
    let socket = field(line, "fd")?.parse().ok()?;
    (socket >= 0).then_some((client, Socket(socket)))
}

/// A field of a line of `CLIENT LIST`.
fn field<'line>(line: &'line str, name: &str) -> Option<&'line str> {
    line.split([' ', '\n'])
        .find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    #[test]
    fn a_field_is_told_from_others_whose_names_end_alike() {
        let line = "id=3 addr=127.0.0.1:1 fd=8 qbuf-fd=9 cmd=lock.acquire\n";
        assert_eq!(field(line, "fd"), Some("8"));
        assert_eq!(field(line, "cmd"), Some("lock.acquire"));
        assert_eq!(field(line, "oll"), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs sockets")]
    fn a_peer_that_has_closed_is_gone_also_with_data_unread() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (ours, _) = listener.accept().unwrap();
        let socket = Socket(ours.as_raw_fd());
        assert!(!socket.peer_is_gone());
        peer.write_all(b"PING").unwrap();
        assert!(!socket.peer_is_gone());
        peer.shutdown(Shutdown::Write).unwrap();
        assert!(socket.peer_is_gone());
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs sockets")]
    fn a_socket_that_is_none_says_nothing() {
        assert!(!Socket(-1).peer_is_gone());
    }
}
