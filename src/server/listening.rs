//! Detects connections that wait to be accepted.

use std::ffi::c_int;
use std::mem::size_of;
use std::ptr;

/// Only this many file descriptors are searched for sockets.
const MOST_FILES: u64 = 100_000;

/// The sockets on which this process listens.
pub(crate) struct Listening(Vec<libc::pollfd>);

impl Listening {
    /// Searches all file descriptors, because a module cannot ask the server for its sockets.
    pub(crate) fn find() -> Self {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: fills in the structure.
        unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
        let files = 0..c_int::try_from(limit.rlim_cur.min(MOST_FILES)).unwrap_or(0);
        let sockets = files.filter(|file| is_listening(*file));
        Self(
            sockets
                .map(|fd| libc::pollfd {
                    fd,
                    events: libc::POLLIN,
                    revents: 0,
                })
                .collect(),
        )
    }

    /// Returns true if a connection waits to be accepted. Returns false if in doubt.
    pub(crate) fn has_connections(&mut self) -> bool {
        let count = libc::nfds_t::try_from(self.0.len()).unwrap_or(0);
        // SAFETY: `count` entries, ours during the call, which does not wait.
        let ready = unsafe { libc::poll(self.0.as_mut_ptr(), count, 0) };
        ready > 0
            && self
                .0
                .iter()
                .any(|polled| polled.revents & libc::POLLIN != 0)
    }
}

/// Returns true if the file descriptor is a listening socket.
fn is_listening(file: c_int) -> bool {
    let mut listens: c_int = 0;
    let Ok(mut size) = libc::socklen_t::try_from(size_of::<c_int>()) else {
        return false;
    };
    // SAFETY: the system writes at most `size` bytes to `listens`.
    let code = unsafe {
        libc::getsockopt(
            file,
            libc::SOL_SOCKET,
            libc::SO_ACCEPTCONN,
            ptr::from_mut(&mut listens).cast(),
            &raw mut size,
        )
    };
    code == 0 && listens != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    #[test]
    #[cfg_attr(miri, ignore = "needs sockets")]
    fn a_connection_is_seen_until_it_is_accepted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut listening = Listening::find();
        let ours = |polled: &libc::pollfd| polled.fd == listener.as_raw_fd();
        assert!(listening.0.iter().any(ours));
        // Ignore the sockets of other tests.
        listening.0.retain(ours);
        assert!(!listening.has_connections());
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(listening.has_connections());
        assert!(!is_listening(client.as_raw_fd()));
        drop(listener.accept().unwrap());
        assert!(!listening.has_connections());
    }

    #[test]
    fn a_missing_file_is_not_a_listening_socket() {
        assert!(!is_listening(-1));
    }
}
