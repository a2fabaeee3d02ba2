//! The ports that servers and proxies listen on.

use crate::server::PATIENCE;
use crate::server::poll;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};

/// A loopback port that no other test bed of this machine uses until this is dropped, whether something listens
/// on it or not: the clients of a server that is down must not take another test's server for it.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// Nothing here speaks UDP, so its socket of the same number marks the port as taken, in all processes.
    _claim: UdpSocket,
}

impl Port {
    /// A port that is free now. Below those that the system gives to outgoing connections, one of
    /// which could otherwise sit on it during a restart. A cluster's bus, whose port is higher by
    /// 10000, has a range of its own.
    ///
    /// # Panics
    /// When no port is free.
    pub fn free() -> Self {
        const FIRST: u16 = 11_000;
        const COUNT: u16 = 10_000;
        const BUS: u16 = 10_000;
        let candidate = || FIRST + u16::try_from(random() % u64::from(COUNT)).expect("below COUNT");
        // Others than test beds may listen there.
        let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        let claimed = || {
            let number = candidate();
            let claim = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
            (is_free(number) && is_free(number + BUS)).then_some(Self {
                number,
                _claim: claim,
            })
        };
        poll(PATIENCE, claimed).expect("a free port")
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

/// Different in each process and at each call.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
