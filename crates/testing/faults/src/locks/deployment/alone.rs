//! One server, with a proxy in front of it.

use super::{Deployment, Node};
use std::sync::Mutex;
use testbed::Proxy;
use testbed::clock::{Hand, SteppedClock};
use testbed::{Builder, Server};

/// One server.
pub(crate) struct Alone {
    node: [Node; 1],
    server: Mutex<Server>,
    proxy: Proxy,
    /// The hand that sets its clock, if it has one.
    clock: Option<Hand>,
}

impl Alone {
    /// A server with these settings.
    pub(crate) fn start(settings: Builder) -> Self {
        Self::of(settings.start(), None)
    }

    /// A server whose clock can be set; the reason where there is no such thing.
    pub(crate) fn start_with_clock(settings: Builder) -> Result<Self, String> {
        let SteppedClock { server, hand } = SteppedClock::start(settings)?;
        Ok(Self::of(server, Some(hand)))
    }

    fn of(server: Server, clock: Option<Hand>) -> Self {
        Self {
            proxy: Proxy::start(server.port()),
            node: [Node::of(&server)],
            server: Mutex::new(server),
            clock,
        }
    }
}

impl Deployment for Alone {
    fn nodes(&self) -> &[Node] {
        &self.node
    }

    fn with_server(&self, _node: usize, act: &mut dyn FnMut(&mut Server)) {
        act(&mut self.server.lock().expect("nobody died with the server"));
    }

    fn home(&self, _key: &str) -> usize {
        0
    }

    fn proxy(&self) -> Option<&Proxy> {
        Some(&self.proxy)
    }

    fn set_clock(&self, seconds: i64) {
        if let Some(clock) = &self.clock {
            clock.set(seconds);
        }
    }
}
