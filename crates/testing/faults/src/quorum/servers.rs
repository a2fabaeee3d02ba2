//! The five servers, each behind a proxy that cuts connections.

use redis::Value;
use std::time::Duration;
use testbed::state::unix_micros;
use testbed::{Builder, Cut, Proxy, Server};

pub(crate) const COUNT: usize = 5;

/// How many may be down and the others still be a majority.
pub(crate) const SPARE: usize = COUNT / 2;

/// A server and what has been done to it.
pub(crate) struct Node {
    server: Server,
    proxy: Proxy,
    pub(crate) state: State,
}

/// How a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Up,
    Stopped,
    Down,
}

/// Starts them all.
pub(crate) fn start(settings: &Builder) -> Vec<Node> {
    (0..COUNT)
        .map(|_| {
            let server = settings.clone().start();
            let proxy = Proxy::start(server.port());
            Node {
                server,
                proxy,
                state: State::Up,
            }
        })
        .collect()
}

impl Node {
    /// Where contenders reach it.
    pub(crate) fn port(&self) -> u16 {
        self.proxy.port()
    }

    pub(crate) fn kill(&mut self) {
        self.server.kill9();
        self.state = State::Down;
    }

    /// Brings it up again, with what it finds in its folder.
    pub(crate) fn restart(&mut self) {
        self.server.restart();
        self.state = State::Up;
    }

    pub(crate) fn stop(&mut self) {
        self.server.signal("STOP");
        self.state = State::Stopped;
    }

    pub(crate) fn go_on(&mut self) {
        self.server.signal("CONT");
        self.state = State::Up;
    }

    pub(crate) fn cut(&self, which: usize, cut: Cut) -> bool {
        self.proxy.cut(which, cut)
    }

    pub(crate) fn lost_replies(&self) -> u64 {
        u64::try_from(self.proxy.lost()).expect("a count")
    }

    /// Puts the tokens of this server ahead of time, as they are after it has granted with a clock that
    /// is ahead; whether that could be done.
    pub(crate) fn put_ahead(&self, ahead: Duration) -> bool {
        const KEY: &str = "ahead";
        let ask = |words: &[&str]| {
            let mut command = redis::cmd(words[0]);
            command.arg(&words[1..]);
            self.server.ask(&command)
        };
        let granted = ask(&["LOCK.ACQUIRE", KEY, KEY, "PX", "1000"]);
        let Some(Value::Array(grant)) = granted else {
            return false;
        };
        let Some(Value::Int(token)) = grant.first() else {
            return false;
        };
        let ahead = i64::try_from(ahead.as_micros()).unwrap_or(0);
        let raise = (unix_micros() + ahead).max(*token);
        let (token, raise) = (token.to_string(), raise.to_string());
        let raised = ask(&["LOCK.RENEW", KEY, KEY, "TOKEN", &token, "RAISE", &raise]);
        ask(&["LOCK.RELEASE", KEY, KEY]);
        raised.is_some()
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }
}
