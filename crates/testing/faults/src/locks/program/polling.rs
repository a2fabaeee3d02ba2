//! The thread that polls a session: on one connection, and when that fails on another.

use super::{Event, Program, What, reply};
use crate::connection::connect;
use crate::locks::protocol;
use history::{Moment, Poll};
use rand::RngExt;
use rand::rngs::StdRng;
use redis::{Cmd, Connection, Value};
use std::sync::atomic::Ordering::SeqCst;
use std::thread::sleep;
use std::time::Duration;
use testbed::{Expect, Proxy, Reply, line};

/// How long a POLL waits: a third of the shortest lease in a session.
const BLOCK: u64 = 333;
/// How long a program may fail to poll.
const SILENCE: u64 = 3_000;
/// How long those may that freeze by chance, some for longer.
const SHORT_SILENCE: u64 = 1_200;
/// How long a reply may take, beyond the time that a POLL waits.
const REPLY: Duration = Duration::from_secs(1);
/// The numbers of the polling threads among those who draw choices.
const NUMBER: u32 = 2_000;

pub(super) struct Polling<'p, 's> {
    program: &'p Program<'s>,
    node: usize,
    random: StdRng,
    connection: Option<Connection>,
    /// How many connections there were.
    connections: u64,
    session: Option<u64>,
    /// The number of the last event.
    seen: i64,
}

/// A reply, and between which two moments it came.
struct Heard {
    sent: Moment,
    ended: Moment,
    reply: Reply,
}

impl<'p, 's> Polling<'p, 's> {
    pub(super) fn new(program: &'p Program<'s>, node: usize) -> Self {
        let number = NUMBER + program.number * 100 + u32::try_from(node).expect("few nodes");
        Self {
            program,
            node,
            random: program.stage.run.random(number),
            connection: None,
            connections: 0,
            session: None,
            seen: 0,
        }
    }

    /// Polls until the program ends, and closes the session.
    pub(super) fn run(mut self) {
        while !self.program.is_over.load(SeqCst) {
            if self.session.is_none() {
                self.open();
            } else {
                self.look();
                self.poll();
            }
            if self.connection.is_none() {
                sleep(Duration::from_millis(self.random.random_range(0..50)));
            }
        }
        let Some(session) = self.session else { return };
        let close = session_command("CLOSE", session);
        let closed = self.ask(&close, REPLY, Duration::ZERO);
        // A primary that was lost, and stands again, may have grants that were released on its successor.
        if let Some(Ok(Value::Int(released @ 1..))) = closed.map(|heard| heard.reply)
            && self.program.stage.has_lost_nothing()
        {
            let trouble = format!("a session had {released} grants that nobody knew");
            self.program.stage.run.trouble(trouble);
        }
    }

    fn open(&mut self) {
        let freezes = self.program.stage.habits.programs.freeze();
        let silence = if freezes { SHORT_SILENCE } else { SILENCE };
        let open = line(&format!("LOCK.SESSION OPEN TIMEOUT {silence}"));
        let Some(heard) = self.ask(&open, REPLY, Duration::ZERO) else {
            return;
        };
        match heard.reply {
            Ok(id) => {
                let session = id.number();
                (self.session, self.seen) = (Some(session), 0);
                self.program.stage.run.count("sessions", 1);
                self.tell(heard.sent, heard.ended, -1, Vec::new());
            }
            Err(refusal) => self.refused(&refusal),
        }
    }

    /// Has a look at the sessions, on the connection that polls.
    fn look(&mut self) {
        let Some(session) = self.session else { return };
        if self.program.stage.habits.hurry && self.random.random_ratio(1, 20) {
            for command in [
                line("LOCK.SESSION LIST"),
                session_command("GRANTS", session),
            ] {
                let heard = self.ask(&command, REPLY, Duration::ZERO);
                if let Some(Err(refusal)) = heard.map(|heard| heard.reply) {
                    self.refused(&refusal);
                }
            }
        }
    }

    fn poll(&mut self) {
        let Some(session) = self.session else { return };
        let mut poll = session_command("POLL", session);
        poll.arg("BLOCK").arg(BLOCK);
        let mut freeze = Duration::ZERO;
        if self.program.stage.habits.programs.freeze() && self.random.random_ratio(1, 12) {
            freeze = Duration::from_millis(self.random.random_range(1_000..4_000));
            self.program.stage.run.count("frozen programs", 1);
            if self.random.random() {
                sleep(std::mem::take(&mut freeze));
            }
        }
        let patience = REPLY + Duration::from_millis(BLOCK);
        let Some(heard) = self.ask(&poll, patience, freeze) else {
            return;
        };
        match heard.reply {
            Ok(value) => {
                let (sure, events) = reply::read(value);
                self.tell(heard.sent, heard.ended, sure, events);
            }
            Err(refusal) => self.refused(&refusal),
        }
    }

    /// Tells the clients.
    fn tell(&mut self, sent: Moment, ended: Moment, sure: i64, events: Vec<reply::Told>) {
        let Some(session) = self.session else { return };
        let mut told = self.program.told(self.node);
        told.session = Some(session);
        told.replies += 1;
        let mut gone = Vec::new();
        for event in events {
            if let What::Gone(token) = event.what {
                gone.push((event.key.clone(), token));
            }
            if event.number <= self.seen {
                continue;
            }
            self.seen = event.number;
            let kind = format!("{} events", event.kind);
            self.program.stage.run.count(&kind, 1);
            let name = (event.key, event.owner);
            told.events.entry(name).or_default().push(Event {
                session,
                heard: ended,
                what: event.what,
            });
        }
        told.polls.push(Poll {
            session,
            connection: self.connections,
            sent,
            ended,
            sure: Some(sure),
            gone,
        });
        drop(told);
        self.program.sites[self.node].news.notify_all();
    }

    /// An error: another connection may do better, and the session may have ended.
    fn refused(&mut self, refusal: &testbed::Refusal) {
        let run = &self.program.stage.run;
        let code = refusal.code();
        if matches!(code, "NOSESSION" | "READONLY") {
            if self.session.take().is_some() {
                run.count("ended sessions", 1);
            }
            self.program.told(self.node).session = None;
            self.program.sites[self.node].news.notify_all();
        } else if code != "UNBLOCKED" && !protocol::is_passing(code) {
            run.trouble(format!("program {}: {refusal}", self.program.number));
        }
        if code != "NOSESSION" {
            self.connection = None;
        }
    }

    /// Sends, on the connection that is open or a new one. None, and the connection is closed, when there is no
    /// reply in time. The program does not read it for `frozen`.
    fn ask(&mut self, command: &Cmd, patience: Duration, frozen: Duration) -> Option<Heard> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        connection.set_read_timeout(Some(patience)).ok()?;
        let run = &self.program.stage.run;
        let sent = run.now();
        let bytes = command.get_packed_command();
        connection.send_packed_command(&bytes).ok()?;
        sleep(frozen);
        let reply = connection.recv_response().ok()?.reply();
        self.connection = Some(connection);
        Some(Heard {
            sent,
            ended: run.now(),
            reply,
        })
    }

    fn connect(&mut self) -> Option<Connection> {
        let deployment = &self.program.stage.deployment;
        let proxy = deployment.proxy().filter(|_| !self.program.is_direct);
        let port = proxy.map_or(deployment.nodes()[self.node].port(), Proxy::port);
        let connection = connect(port).ok()?;
        self.connections += 1;
        if self.session.is_some() {
            let run = &self.program.stage.run;
            run.count("sessions polled on a new connection", 1);
        }
        Some(connection)
    }
}

fn session_command(name: &str, session: u64) -> Cmd {
    line(&format!("LOCK.SESSION {name} {session}"))
}
