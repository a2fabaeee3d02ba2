//! The state of a client's connection, from `CLIENT LIST` and from the client's socket.

use std::ffi::{c_int, c_short};
use std::{io, ptr};

use super::Context;
use super::api::{OK, api};

/// The socket of a connected client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Socket(c_int);

impl Socket {
    /// Returns true if the other end has closed or the connection is broken, even if the server has not read that yet.
    /// Returns false if in doubt.
    pub(crate) fn peer_has_closed(self) -> bool {
        // Other systems have no such flag, and report only a connection that is closed both ways.
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
            // SAFETY: one entry, ours during the call, which does not wait.
            let ready = unsafe { libc::poll(&raw mut polled, 1, 0) };
            if ready >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return ready > 0 && polled.revents & (CLOSED | libc::POLLHUP | libc::POLLERR) != 0;
            }
        }
    }
}

/// The flags of a client that gets more than replies (subscribed, tracking, monitor), or whose last command has not run
/// yet (in a transaction, blocked).
const MORE_THAN_REPLIES: [char; 5] = ['P', 't', 'O', 'x', 'b'];

impl Context<'_> {
    /// The sockets of these clients. Leaves out clients that are not connected.
    pub(crate) fn sockets(self, clients: &[u64]) -> Vec<(u64, Socket)> {
        let lines = self.client_lines(clients).unwrap_or_default();
        lines.lines().filter_map(socket).collect()
    }

    /// Returns true if at least part of the reply to a client's last command is unsent: the command was `command`, and
    /// the server has output left that the socket did not accept. Returns false for a client that gets more than
    /// replies, or whose last command has not run yet.
    pub(crate) fn reply_is_unsent(self, client: u64, command: &str) -> bool {
        let Some(line) = self.client_lines(&[client]) else {
            return false;
        };
        let has_output = |name| field(&line, name).is_some_and(|size| size != "0");
        let more_than_replies =
            field(&line, "flags").is_none_or(|flags| flags.contains(MORE_THAN_REPLIES));
        !more_than_replies
            && field(&line, "cmd") == Some(command)
            && (has_output("obl") || has_output("oll"))
            && waits_for_socket(&line)
    }

    /// Returns true if the caller is a client with a connection, not a script, a function or another module.
    pub(crate) fn comes_from_connection(self) -> bool {
        let client = self.client_id();
        // SAFETY: with a null pointer, the server only reports whether it knows the client.
        client != 0
            && self.flags().is_of_client()
            && unsafe { api!(RedisModule_GetClientInfoById)(ptr::null_mut(), client) == OK }
    }

    /// Returns true if this client may be running a command: the server has arguments of the client, and the client is
    /// not blocked. (Also true if an I/O thread has read a command that has not run yet.)
    pub(crate) fn may_be_running(self, client: u64) -> bool {
        self.client_lines(&[client]).is_some_and(|line| {
            field(&line, "argv-mem").is_some_and(|arguments| arguments != "0")
                && field(&line, "flags").is_some_and(|flags| !flags.contains('b'))
        })
    }
}

/// Returns true if the client's socket has not accepted all output.
///
/// The server then waits for a write event of the socket. Without such an event, an I/O thread of Valkey may have sent
/// the output already. On Redis, whose lines name the I/O thread, a missing event proves nothing, because a thread that
/// closes the client removes the event.
fn waits_for_socket(line: &str) -> bool {
    field(line, "events").is_some_and(|events| events.contains('w'))
        || field(line, "io-thread").is_some()
}

/// The client and the socket in a line of `CLIENT LIST`.
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
    fn a_field_is_found_among_others_whose_names_end_alike() {
        let line = "id=3 addr=127.0.0.1:1 fd=8 qbuf-fd=9 cmd=lock.acquire\n";
        assert_eq!(field(line, "fd"), Some("8"));
        assert_eq!(field(line, "cmd"), Some("lock.acquire"));
        assert_eq!(field(line, "oll"), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs sockets")]
    fn a_peer_that_closed_is_noticed_behind_unread_data() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (ours, _) = listener.accept().unwrap();
        let socket = Socket(ours.as_raw_fd());
        assert!(!socket.peer_has_closed());
        peer.write_all(b"PING").unwrap();
        assert!(!socket.peer_has_closed());
        peer.shutdown(Shutdown::Write).unwrap();
        assert!(socket.peer_has_closed());
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs sockets")]
    fn an_invalid_socket_is_not_closed() {
        assert!(!Socket(-1).peer_has_closed());
    }
}
