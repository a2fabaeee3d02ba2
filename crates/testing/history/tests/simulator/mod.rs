//! A lock, its clients and all that can happen to them, in virtual time: every seed is another
//! history.

mod clients;
pub(crate) mod defect;
mod programs;
mod server;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use history::{Action, Call, ClockStep, History, Limit, Moment, Outcome, Sighting, Span};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use defect::Defect;
use programs::{Program, ProgramEvent};
use server::{Id, Saved, Server};

/// What is simulated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) seed: u64,
    pub(crate) calls: usize,
    pub(crate) clients: u32,
    /// In milliseconds; the shortest is a fortieth of it.
    pub(crate) longest_lease: u64,
    /// How many clients share an owner.
    pub(crate) siblings: u32,
    /// Of a hundred calls, how many are not answered.
    pub(crate) lost: u32,
    pub(crate) raises: bool,
    /// Clients share the lock.
    pub(crate) shares: bool,
    /// Each client polls a session, in which some of its calls wait.
    pub(crate) programs: bool,
    pub(crate) nemesis: Nemesis,
    /// How the lock is wrong.
    pub(crate) defect: Option<Defect>,
}

/// What is done to the server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Nemesis {
    /// Somebody sets its clock.
    pub(crate) steps: bool,
    /// Its memory is full.
    pub(crate) evictions: bool,
    /// It goes down, and what it did last is lost.
    pub(crate) crashes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Start(u32),
    Arrive(Id),
    Leave(Id),
    Answer(Id),
    WriteArrives(usize),
    Tick,
    Sight,
    Step,
    Evict,
    Crash,
    Program(ProgramEvent),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    /// The reply, or the request, is lost on its way.
    Cut {
        arrives: bool,
    },
    /// The connection is closed while the call waits, or just as it is granted.
    Closed {
        by_server: bool,
    },
}

struct Simulation {
    settings: Settings,
    random: StdRng,
    events: BinaryHeap<Reverse<(Moment, u64, Event)>>,
    order: u64,
    now: Moment,
    server: Server,
    /// By client.
    programs: Vec<Program>,
    saved: Vec<Saved>,
    sql: u64,
    history: History,
    fates: Vec<Fate>,
    /// Calls that have an outcome.
    over: Vec<bool>,
    /// The last token that each client was told of.
    tokens: Vec<u64>,
    /// Which clients were told that they have the lock alone.
    alone: Vec<bool>,
}

/// The history of a simulation.
pub(crate) fn simulate(settings: Settings) -> History {
    let mut simulation = Simulation {
        settings,
        random: StdRng::seed_from_u64(settings.seed),
        events: BinaryHeap::new(),
        order: 0,
        now: 0,
        server: Server::new(settings.defect),
        programs: vec![Program::default(); settings.clients as usize],
        saved: vec![Saved::default()],
        sql: 0,
        history: History::default(),
        fates: Vec::new(),
        over: Vec::new(),
        tokens: vec![0; settings.clients as usize],
        alone: vec![false; settings.clients as usize],
    };
    for client in 0..settings.clients {
        simulation.within(2_000, Event::Start(client));
    }
    if settings.programs {
        simulation.open_sessions();
    }
    simulation.after(3_000, Event::Tick);
    simulation.after(1_000, Event::Sight);
    let Nemesis {
        steps,
        evictions,
        crashes,
    } = settings.nemesis;
    for (happens, event) in [
        (steps, Event::Step),
        (evictions, Event::Evict),
        (crashes, Event::Crash),
    ] {
        if happens {
            simulation.within(200_000, event);
        }
    }
    while let Some(Reverse((now, _, event))) = simulation.events.pop() {
        simulation.now = now;
        simulation.happen(event);
    }
    simulation.history
}

impl Simulation {
    fn after(&mut self, delay: Moment, event: Event) {
        self.order += 1;
        let entry = (self.now + delay, self.order, event);
        self.events.push(Reverse(entry));
    }

    fn within(&mut self, most: Moment, event: Event) {
        let delay = self.random.random_range(1..=most);
        self.after(delay, event);
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    fn happen(&mut self, event: Event) {
        self.server.advance(self.now);
        let goes_on = !self.is_over();
        match event {
            Event::Start(client) if goes_on => self.start(client),
            Event::Start(_) => {}
            Event::Arrive(id) => self.arrive(id),
            Event::Answer(id) => {
                let outcome = self.history.calls[id].outcome.clone();
                self.finish(id, outcome);
            }
            Event::Leave(id) => self.leave(id),
            Event::WriteArrives(write) => self.write_arrives(write),
            Event::Program(event) => self.program_happens(event),
            Event::Tick => {
                self.judge_programs();
                self.server.tick();
                if goes_on || self.over.contains(&false) {
                    self.after(4_000, Event::Tick);
                }
                if self.random.random_range(0..4) == 0 {
                    self.saved.push(self.server.save());
                }
            }
            Event::Sight => {
                let before = self.random.random_range(0..300);
                let after = self.random.random_range(0..300);
                let calls = &self.history.calls;
                let clients = self.server.waiters().map(|id| calls[id].client);
                let sighting = Sighting {
                    key: "lock".to_owned(),
                    sent: self.now - before,
                    ended: self.now + after,
                    clients: clients.collect(),
                };
                self.history.sightings.push(sighting);
                if goes_on {
                    self.within(10_000, Event::Sight);
                }
            }
            Event::Step => {
                let ahead = self.random.random_range(-300_000..300_000);
                self.server.ahead = ahead;
                let at = self.around_now();
                self.history.facts.steps.push(ClockStep { at, ahead });
                if goes_on {
                    self.after(10_000, Event::Step);
                }
            }
            Event::Evict => {
                self.server.evict();
                let at = self.around_now();
                self.history.facts.evictions.push(at);
                if goes_on {
                    self.within(100_000, Event::Evict);
                }
            }
            Event::Crash => {
                self.crash();
                if goes_on {
                    self.within(300_000, Event::Crash);
                }
            }
        }
        self.collect();
    }

    /// What a recorder knows of when something happened.
    fn around_now(&mut self) -> Span {
        let room = self.random.random_range(0..2_000);
        Span {
            from: self.now - room.min(self.now),
            to: self.now + room,
        }
    }

    fn is_over(&self) -> bool {
        self.history.calls.len() >= self.settings.calls
    }

    /// Takes note of what waiting calls were answered.
    fn collect(&mut self) {
        for (id, outcome) in std::mem::take(&mut self.server.answers) {
            self.answer(id, outcome);
        }
        for id in std::mem::take(&mut self.server.dead) {
            // By then the server has given back what the call took.
            self.after(9_000, Event::Answer(id));
        }
    }

    fn answer(&mut self, id: Id, outcome: Outcome) {
        match self.fates[id] {
            Fate::Cut { .. } => self.within(3_000, Event::Answer(id)),
            Fate::Closed { .. } if self.history.calls[id].outcome != Outcome::Untouched => {}
            _ => {
                self.fates[id] = Fate::Answered;
                self.history.calls[id].outcome = outcome;
                self.within(400, Event::Answer(id));
            }
        }
    }

    /// The client knows what came of its call.
    fn finish(&mut self, id: Id, outcome: Outcome) {
        if std::mem::replace(&mut self.over[id], true) {
            return;
        }
        let call = &mut self.history.calls[id];
        call.ended = self.now;
        if let Outcome::Grant { token, limit, .. } = outcome {
            let client = call.client as usize;
            let is_acquire = matches!(call.action, Action::Acquire { .. });
            self.alone[client] = match limit {
                Some(limit) => limit == Limit::ONE,
                None => is_acquire || self.alone[client] && self.tokens[client] == token,
            };
            self.tokens[client] = token;
        }
        call.outcome = outcome;
        let client = call.client;
        self.write(client);
        let pause = if self.chance(50) { 500 } else { 20_000 };
        self.within(pause, Event::Start(client));
    }

    fn start(&mut self, client: u32) {
        let action = self.choose(client);
        let lost = self.settings.lost;
        let block = matches!(action, Action::Acquire { block: true, .. });
        let fate = if !self.chance(lost) {
            Fate::Answered
        } else if block {
            Fate::Closed {
                by_server: self.chance(50),
            }
        } else {
            Fate::Cut {
                arrives: self.chance(50),
            }
        };
        let may_queue = matches!(
            (fate, &action),
            (
                Fate::Answered,
                Action::Acquire {
                    holds: Some(_),
                    token: None,
                    ..
                }
            )
        );
        let session = if block {
            self.in_session(client, may_queue)
        } else {
            None
        };
        let id = self.history.calls.len();
        let nobody = matches!(action, Action::Look | Action::Remove | Action::Fence(_));
        let owner = client / self.settings.siblings;
        self.history.calls.push(Call {
            client,
            key: "lock".to_owned(),
            owner: if nobody {
                String::new()
            } else {
                format!("owner{owner}")
            },
            action,
            sent: self.now,
            ended: Moment::MAX,
            outcome: match fate {
                Fate::Answered => Outcome::Untouched,
                Fate::Closed { by_server: true } => Outcome::GivenBack,
                Fate::Closed { .. } | Fate::Cut { .. } => Outcome::Lost,
            },
            session,
        });
        self.fates.push(fate);
        self.over.push(false);
        self.within(300, Event::Arrive(id));
    }

    fn arrive(&mut self, id: Id) {
        if self.over[id] {
            return;
        }
        let doomed = matches!(self.fates[id], Fate::Closed { .. });
        if self.fates[id] == (Fate::Cut { arrives: false }) {
            self.within(3_000, Event::Answer(id));
        } else {
            let until = self.now + self.random.random_range(1_000..60_000);
            let call = self.history.calls[id].clone();
            match self.server.run(id, &call, until, doomed) {
                Some(outcome) if doomed => {
                    // It did not wait, and so it was answered.
                    self.fates[id] = Fate::Answered;
                    self.history.calls[id].outcome = Outcome::Untouched;
                    self.answer(id, outcome);
                }
                Some(outcome) => self.answer(id, outcome),
                None if doomed => self.within(40_000, Event::Leave(id)),
                None => {}
            }
        }
    }

    /// A waiting call's connection is closed.
    fn leave(&mut self, id: Id) {
        if !self.over[id] && self.fates[id] != Fate::Answered {
            self.server.leave(id);
            self.within(10_000, Event::Answer(id));
        }
    }

    fn crash(&mut self) {
        let forgets = self.settings.defect == Some(Defect::Forgets);
        let to = self.now + 1_000;
        if !forgets {
            self.history.facts.losses.push(Span { from: self.now, to });
        }
        let back = self.random.random_range(1..=self.saved.len().min(6));
        let saved = self.saved[self.saved.len() - back].clone();
        self.server.crash(saved);
        for id in 0..self.over.len() {
            if !self.over[id] {
                self.history.calls[id].outcome = Outcome::Lost;
                self.fates[id] = Fate::Cut { arrives: false };
                self.after(1_000, Event::Answer(id));
            }
        }
    }
}
