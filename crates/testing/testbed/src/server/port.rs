//! The ports that servers listen on.

use super::{PATIENCE, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketType, bind, socket};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::OwnedFd;

/// A port that was free a moment ago. Below those that the system gives to outgoing connections,
/// one of which could otherwise sit on it during a restart; with room for a cluster's bus, whose
/// port is higher by 10000.
pub fn free_port() -> u16 {
    const FIRST: u16 = 11_000;
    const COUNT: u16 = 11_000;
    let candidate = || FIRST + u16::try_from(random() % u64::from(COUNT)).expect("below COUNT");
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    poll(PATIENCE, || Some(candidate()).filter(is_free)).expect("a free port")
}

/// Different in each process and at each call.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Keeps the port of a server that is down from others: its clients would take another test's server for it. Whoever connects
/// is refused. None where somebody has it already.
pub(super) fn reserve(port: u16) -> Option<OwnedFd> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).ok()?;
    fcntl_setfd(&socket, FdFlags::CLOEXEC).ok()?;
    // Connections that have just ended are no hindrance to this one, which is one to all others.
    set_socket_reuseaddr(&socket, true).ok()?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).ok()?;
    set_socket_reuseaddr(&socket, false).ok()?;
    Some(socket)
}
