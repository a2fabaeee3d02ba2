//! Programs that poll their sessions, are cut off, and freeze.

use history::{InSession, Moment, Poll};
use rand::RngExt;

use super::defect::Defect;
use super::{Event, Simulation};

/// A program that has not polled for so long after a reply is away.
const REPLY_AGE: Moment = 1_000_000;

/// What happens to a program: to a client, or to a POLL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProgramEvent {
    Connects(u32),
    Polls(u32),
    Arrives(usize),
    Answered(usize),
    Read(usize),
    Cut(usize),
}

/// The session of a client, as the server knows it.
#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    /// The connection that polls it.
    connection: u64,
    is_open: bool,
    /// Since when a POLL waits.
    polls: Option<Moment>,
    last_reply: Moment,
    /// What is answered.
    answer: (i64, Vec<(String, u64)>),
}

pub(super) fn session(client: u32) -> u64 {
    u64::from(client) + 1
}

impl Simulation {
    pub(super) fn open_sessions(&mut self) {
        for client in 0..self.settings.clients {
            self.connect(client);
        }
    }

    pub(super) fn program_happens(&mut self, event: ProgramEvent) {
        match event {
            ProgramEvent::Connects(client) => self.connect(client),
            ProgramEvent::Polls(client) => self.polls(client),
            ProgramEvent::Arrives(poll) => self.arrives(poll),
            ProgramEvent::Answered(poll) => self.answered(poll),
            ProgramEvent::Read(poll) => self.read(poll),
            ProgramEvent::Cut(poll) => self.cut(poll),
        }
    }

    /// A new connection polls at once.
    fn connect(&mut self, client: u32) {
        self.programs[client as usize].connection += 1;
        self.polls(client);
    }

    /// How a waiting call belongs to the session of its client, if it does.
    pub(super) fn in_session(&mut self, client: u32, may_queue: bool) -> Option<InSession> {
        (self.settings.programs && self.chance(70)).then(|| InSession {
            id: session(client),
            queued: may_queue && self.chance(50),
        })
    }

    fn polls(&mut self, client: u32) {
        if self.is_over() && !self.over.contains(&false) {
            return;
        }
        self.history.polls.push(Poll {
            session: session(client),
            connection: self.programs[client as usize].connection,
            sent: self.now,
            ended: Moment::MAX,
            sure: None,
            gone: Vec::new(),
        });
        self.within(
            300,
            Event::Program(ProgramEvent::Arrives(self.history.polls.len() - 1)),
        );
    }

    fn arrives(&mut self, poll: usize) {
        let now = self.now;
        let program = self.program(poll);
        (program.is_open, program.polls) = (true, Some(now));
        self.judge_presence(poll);
        let is_cut = self.chance(10);
        let end = [ProgramEvent::Answered, ProgramEvent::Cut][usize::from(is_cut)](poll);
        self.within(8_000, Event::Program(end));
    }

    fn answered(&mut self, poll: usize) {
        let now = self.now;
        let since = self.program(poll).polls.take().unwrap_or(now);
        let answer = self.server.sure(self.history.polls[poll].session, since);
        let program = self.program(poll);
        (program.last_reply, program.answer) = (now, answer);
        self.within(400, Event::Program(ProgramEvent::Read(poll)));
    }

    fn read(&mut self, poll: usize) {
        let (sure, gone) = std::mem::take(&mut self.program(poll).answer);
        let record = &mut self.history.polls[poll];
        (record.ended, record.sure, record.gone) = (self.now, Some(sure), gone);
        let client = self.client_of(poll);
        match self.random.random_range(0..20) {
            0..2 => self.within(2_000, Event::Program(ProgramEvent::Cut(poll))),
            2 => self.after(1_200_000, Event::Program(ProgramEvent::Polls(client))),
            _ => self.within(500, Event::Program(ProgramEvent::Polls(client))),
        }
    }

    /// The connection is closed.
    fn cut(&mut self, poll: usize) {
        let program = self.program(poll);
        (program.is_open, program.polls) = (false, None);
        self.judge_presence(poll);
        self.within(
            40_000,
            Event::Program(ProgramEvent::Connects(self.client_of(poll))),
        );
    }

    /// Those are away that have not polled for a second after a reply.
    pub(super) fn judge_programs(&mut self) {
        for (client, program) in (0..).zip(&self.programs) {
            let is_late = program.polls.is_none() && self.now > program.last_reply + REPLY_AGE;
            if is_late && self.settings.programs {
                self.server.pass_over(session(client), true);
            }
        }
    }

    fn judge_presence(&mut self, poll: usize) {
        let is_wrong = self.settings.defect == Some(Defect::PassesPresent);
        let is_away = is_wrong || !self.program(poll).is_open;
        let client = self.client_of(poll);
        self.server.pass_over(session(client), is_away);
    }

    fn client_of(&self, poll: usize) -> u32 {
        u32::try_from(self.history.polls[poll].session - 1).expect("a client")
    }

    fn program(&mut self, poll: usize) -> &mut Program {
        let client = self.client_of(poll);
        &mut self.programs[client as usize]
    }
}
