//! The state of a client's connection: by `CLIENT LIST`, and by the socket that it names.

use std::ffi::{c_int, c_short};
use std::{io, ptr};

use super::Context;
use super::api::{OK, api};

/// The socket of a client that is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Socket(c_int);

impl Socket {
    /// True when the other end has closed or the connection is broken, even if the server has not read that yet. False
    /// in doubt.
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

/// The flags of a client that gets more than replies (subscribed, tracking, monitor), or whose last command
/// has not run (in a transaction, blocked).
const MORE_THAN_REPLIES: [char; 5] = ['P', 't', 'O', 'x', 'b'];

impl Context<'_> {
    /// The sockets of these clients, as far as they are connected.
    pub(crate) fn sockets(self, clients: &[u64]) -> Vec<(u64, Socket)> {
        let lines = self.client_lines(clients).unwrap_or_default();
        lines.lines().filter_map(socket).collect()
    }

    /// True when the reply to a client's last command is unsent, at least in part: the command was
    /// `command`, and the server has output left that the client's socket did not take. False for a client that gets
    /// more than replies, or whose last command has not run.
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

    /// True when the caller is a client of a connection: no script, function or call of another module.
    pub(crate) fn comes_from_connection(self) -> bool {
        let client = self.client_id();
        // SAFETY: without room for them, the server tells only whether it knows the client.
        client != 0
            && self.flags().is_of_client()
            && unsafe { api!(RedisModule_GetClientInfoById)(ptr::null_mut(), client) == OK }
    }

    /// True when this client's command may be running: the server holds arguments of it, and it is not blocked. (Also
    /// where threads have read a command that is still to run.)
    pub(crate) fn may_be_running(self, client: u64) -> bool {
        self.client_lines(&[client]).is_some_and(|line| {
            field(&line, "argv-mem").is_some_and(|arguments| arguments != "0")
                && field(&line, "flags").is_some_and(|flags| !flags.contains('b'))
        })
    }
}

/// True when the server waits until the client's socket takes more output. On Valkey, output without such an event may
/// have been sent by an I/O thread; on Redis, whose lines name the thread, a thread that closes removes the event.
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
