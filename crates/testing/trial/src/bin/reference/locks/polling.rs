//! The loop.

use super::{Locks, REPLY, is_wrong};
use crate::replies::{Error, classify, send, tell_loss, token_of};
use redis::{Connection, Value as Reply};
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, Instant};
use testbed::Expect;

impl Locks {
    /// The loop: polls the session, and opens another one when it has ended.
    pub(super) fn poll(&self) {
        let mut connection = None;
        let mut pause = Duration::from_millis(50);
        while !self.is_closed.load(SeqCst) {
            let begun = Instant::now();
            let error = match self.round(&mut connection) {
                Ok(()) => {
                    pause = Duration::from_millis(50);
                    None
                }
                Err(error) => Some(error),
            };
            self.state().refused = error.clone().filter(|it| it.0 == "refused");
            if error.is_some() && !is_wrong("keeps-connection") {
                connection = None;
                if is_wrong("forgets-session") {
                    self.state().session = None;
                }
            }
            let lost = self.state().silent(begun);
            lost.into_iter().for_each(tell_loss);
            self.changed.notify_all();
            if error.is_some() && !is_wrong("knocks") {
                thread::sleep(pause);
                pause = (2 * pause).min(Duration::from_secs(1));
            }
        }
    }

    fn round(&self, connection: &mut Option<Connection>) -> Result<(), Error> {
        if connection.is_none() {
            *connection = Some(self.connect()?);
        }
        let connection = connection.as_mut().expect("a connection");
        let known = self.state().session;
        let session = if let Some(session) = known {
            session
        } else {
            let timeout = self.timeout.unwrap_or(Duration::from_secs(30));
            let timeout = timeout.as_millis().to_string();
            let words = ["LOCK.SESSION", "OPEN", "TIMEOUT", &timeout, "NAME", "trial"];
            let session = token_of(&send(connection, &words)?);
            self.state().opened(session);
            self.changed.notify_all();
            session
        };
        let id = session.to_string();
        let to_move = self.state().to_move(session);
        for (name, token) in to_move {
            let (key, owner, token) = (&name.0, &name.1, token.to_string());
            let sent = Instant::now();
            let words = ["LOCK.RENEW", key, owner, "TOKEN", &token, "SESSION", &id];
            match send(connection, &words) {
                Ok(_) => self
                    .state()
                    .renewed(&name, Some(session), sent + self.lease),
                Err(("lost" | "misuse", _)) => {
                    let lost = self.state().lose(&name);
                    lost.into_iter().for_each(tell_loss);
                }
                Err(("unavailable", text)) => return Err(("unavailable", text)),
                Err(_) => {}
            }
        }
        let unfinished = self.state().unfinished.clone();
        for release in unfinished {
            let words: Vec<_> = release.iter().map(String::as_str).collect();
            match send(connection, &words) {
                Err(("unavailable", text)) => return Err(("unavailable", text)),
                _ => self.state().unfinished.retain(|it| *it != release),
            }
        }
        if self.state().has_strays_for(self.lease)
            && !is_wrong("leaves-strays")
            && !is_wrong("stays-in-session")
        {
            let grants = send(connection, &["LOCK.SESSION", "GRANTS", &id])?;
            self.release_strays(grants)?;
        }
        let known = self.state().known(session);
        let block = (self.lease / 3).as_millis().to_string();
        let limit = (!is_wrong("waits-on")).then_some(self.lease / 3 + REPLY);
        let limited = connection.set_read_timeout(limit);
        limited.map_err(|error| classify(&error))?;
        let sent = Instant::now();
        let reply = send(connection, &["LOCK.SESSION", "POLL", &id, "BLOCK", &block]);
        let reply = match reply {
            Err(("no-session", _)) if !is_wrong("keeps-session") => {
                self.session_ended();
                return Ok(());
            }
            reply => reply?,
        };
        let lost = self
            .state()
            .polled((session, sent), &known, reply, self.lease);
        lost.into_iter().for_each(tell_loss);
        self.changed.notify_all();
        Ok(())
    }

    /// Nothing is lost yet.
    fn session_ended(&self) {
        let mut state = self.state();
        state.session = None;
        if is_wrong("gives-up") {
            let held = state.claims.iter().filter(|(_, it)| it.token().is_some());
            let held: Vec<_> = held.map(|(name, _)| name.clone()).collect();
            let lost: Vec<_> = held.iter().filter_map(|name| state.lose(name)).collect();
            lost.into_iter().for_each(tell_loss);
        }
    }

    /// Releases what the session has and nobody knows of.
    fn release_strays(&self, grants: Reply) -> Result<(), Error> {
        for grant in grants.items() {
            let fields = grant.fields();
            let field = |name: &str| fields[name].clone();
            let name = (field("key").text(), field("owner").text());
            if !self.state().claims.contains_key(&name) {
                let token = field("token").int().to_string();
                let words = ["LOCK.RELEASE", &name.0, &name.1, "ALL", "TOKEN", &token];
                self.command(&words)?;
            }
        }
        self.state().strays_since = None;
        Ok(())
    }
}
