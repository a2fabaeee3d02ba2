//! Time, the network between the programs and the server, and faults.

use std::collections::{BTreeMap, BTreeSet};

use super::program::{Outbox, Program, Stage};
use super::server::Server;
use super::user::Task;
use super::{Faults, Random, Reply, Request, Rule, SESSION};

/// A step of the clock.
const STEP: u64 = 10;
/// Until then faults happen and tasks begin; then all has to come to rest.
const BUSY: u64 = 60_000;
const REST: u64 = 60_000;
const TASKS: usize = 2;

enum Message {
    Request(u64, u64, Request),
    Closed(u64),
    /// To a program.
    Reply(usize, u64, Reply),
}

#[derive(Default)]
struct Side {
    program: Program,
    tasks: [Task; TASKS],
    outbox: Outbox,
    frozen_until: u64,
    cut_until: u64,
    inbox: Vec<(u64, Reply)>,
}

#[derive(Default)]
struct World {
    random: Random,
    faults: Faults,
    time: u64,
    server: Server,
    stalled_until: u64,
    stalled_since: Option<u64>,
    refuses_until: u64,
    sides: [Side; 2],
    /// By time, and by the order of sending.
    messages: BTreeMap<(u64, u64), Message>,
    last_message: u64,
    /// When the last request of a connection arrives; forever: it is dead.
    arrivals: BTreeMap<u64, u64>,
    /// The same of replies.
    replies: BTreeMap<u64, u64>,
    side_of: BTreeMap<u64, usize>,
    last_owner: u64,
    forced: BTreeSet<u64>,
    last_token: u64,
    grants: usize,
}

/// Plays once.
///
/// # Errors
///
/// The violations.
pub(crate) fn play(seed: u64, faults: Faults, left_out: &[Rule]) -> Result<usize, String> {
    let mut world = World {
        random: Random(seed),
        faults,
        time: 1,
        ..World::default()
    };
    for side in &mut world.sides {
        side.program.left_out = left_out.to_vec();
        side.tasks[0].keeps_owner = true;
    }
    while world.time < BUSY + REST {
        world.step()?;
        if world.time > BUSY && world.is_at_rest() {
            return Ok(world.grants);
        }
    }
    Err(world.unrest())
}

impl World {
    fn step(&mut self) -> Result<(), String> {
        self.time += STEP;
        if self.time < BUSY {
            self.fault();
        }
        self.server.at(self.time);
        if self.time >= self.stalled_until {
            if let Some(since) = self.stalled_since.take() {
                self.server.stalled(self.time - since);
            }
            self.deliver(true)?;
            self.server.tick();
            self.send_replies();
        }
        self.deliver(false)?;
        for index in 0..self.sides.len() {
            if self.time >= self.sides[index].frozen_until {
                self.run(index);
                self.judge_losses(index)?;
            }
        }
        self.judge_believers()
    }

    fn fault(&mut self) {
        let time = self.time;
        if self.random.one_in(1500) {
            let index = usize::from(self.random.one_in(2));
            let is_long = self.random.one_in(3);
            let most = if is_long { 9 * SESSION } else { 2500 };
            self.sides[index].frozen_until = time + self.random.below(most);
        }
        if self.faults == Faults::All {
            // Above all a grant that is new: its reply may be under way.
            let token = self.server.held.as_ref().map(|held| held.token);
            let is_new = token.is_some_and(|token| token > self.last_token);
            self.last_token = token.unwrap_or(self.last_token);
            let is_deleted = self.random.one_in(if is_new { 12 } else { 800 });
            if is_deleted && time >= self.stalled_until {
                self.forced.extend(self.server.delete());
            }
            if self.random.one_in(if is_new { 4 } else { 2500 }) {
                let index = usize::from(self.random.one_in(2));
                self.sides[index].cut_until = time + self.random.below(6 * SESSION);
            }
            if self.random.one_in(1000) {
                self.refuses_until = time + self.random.below(8000);
            }
            if self.random.one_in(2000) && self.stalled_since.is_none() {
                self.stalled_since = Some(time);
                self.stalled_until = time + self.random.below(4000);
            }
        }
    }

    /// How long a message from or to a program is under way; none: it is lost.
    fn delay(&mut self, index: usize) -> Option<u64> {
        let is_sound = self.faults == Faults::Freezes || self.time >= BUSY;
        if self.time < self.sides[index].cut_until && !is_sound {
            return None;
        }
        match self.random.below(100) {
            0..=2 if !is_sound => None,
            3..=6 if !is_sound => Some(self.random.below(6000)),
            7..=19 if !is_sound => Some(self.random.below(600)),
            _ => Some(1 + self.random.below(20)),
        }
    }

    fn post(&mut self, at: u64, message: Message) {
        self.last_message += 1;
        self.messages.insert((at, self.last_message), message);
    }

    /// Delivers what has arrived at the server, or at the programs.
    fn deliver(&mut self, to_server: bool) -> Result<(), String> {
        let arrived = self.messages.range(..=(self.time, u64::MAX));
        let arrived: Vec<_> = arrived
            .filter(|(_, message)| matches!(message, Message::Reply(..)) != to_server)
            .map(|(at, _)| *at)
            .collect();
        for at in arrived {
            match self.messages.remove(&at) {
                Some(Message::Request(connection, call, request)) => {
                    let is_renewal = matches!(request, Request::Renew { .. });
                    if is_renewal && self.time < self.refuses_until {
                        let refused = (connection, call, Reply::Refused);
                        self.server.replies.push(refused);
                    } else {
                        self.server.request(connection, call, &request);
                    }
                    self.send_replies();
                }
                Some(Message::Closed(connection)) => self.server.closed(connection),
                Some(Message::Reply(index, call, reply)) => {
                    self.sides[index].inbox.push((call, reply));
                }
                None => return Err("a message is delivered twice".to_owned()),
            }
        }
        Ok(())
    }

    fn send_replies(&mut self) {
        for (connection, call, reply) in std::mem::take(&mut self.server.replies) {
            let side = self.side_of[&connection];
            let mut delay = self.delay(side);
            let is_late = matches!(reply, Reply::Polled { .. }) && self.random.one_in(10);
            if is_late && self.faults == Faults::All && self.time < BUSY {
                delay = delay.map(|delay| delay + 400 + self.random.below(500));
            }
            let last = self.replies.entry(connection).or_default();
            if let Some(at) = arrival(last, self.time, delay) {
                self.post(at, Message::Reply(side, call, reply));
            }
        }
    }

    /// A program reads what has come, and continues; sometimes its timers are first.
    fn run(&mut self, index: usize) {
        let (time, is_over) = (self.time, self.time >= BUSY);
        let timers_first = self.random.one_in(3);
        let last = self.sides.iter().map(|it| it.outbox.last).max();
        let side = &mut self.sides[index];
        side.outbox.last = last.unwrap_or(0);
        side.outbox.now = time;
        if timers_first {
            side.program.go_on(&mut side.outbox);
        }
        for (call, reply) in std::mem::take(&mut side.inbox) {
            side.program.reply(&mut side.outbox, call, reply);
        }
        side.program.go_on(&mut side.outbox);
        let owners = &mut self.last_owner;
        for task in &mut side.tasks {
            let there = (&mut side.program, &mut side.outbox);
            self.grants += task.go_on(there, is_over, &mut self.random, owners);
        }
        let sent = std::mem::take(&mut side.outbox.sent);
        let closed = std::mem::take(&mut side.outbox.closed);
        for (connection, call, request) in sent {
            self.side_of.insert(connection, index);
            let delay = self.delay(index);
            let last = self.arrivals.entry(connection).or_default();
            if let Some(at) = arrival(last, time, delay) {
                self.post(at, Message::Request(connection, call, request));
            }
        }
        for connection in closed {
            // The lost bytes are lost, but at some time the server notices the end.
            let last = self.arrivals.remove(&connection).unwrap_or(0);
            let last = if last == u64::MAX { 0 } else { last };
            let delay = self.delay(index).unwrap_or(8000);
            self.post((time + delay).max(last), Message::Closed(connection));
        }
    }

    /// A loss that was told is one.
    fn judge_losses(&mut self, index: usize) -> Result<(), String> {
        let told = std::mem::take(&mut self.sides[index].program.told);
        for (token, by_silence) in told {
            let is_excused = by_silence && self.faults == Faults::All;
            if self.server.has_token(token) && !is_excused {
                let time = self.time;
                return Err(format!(
                    "{token} is reported as lost at {time}, and is held"
                ));
            }
        }
        Ok(())
    }

    /// A program that believes to hold the lock holds it.
    fn judge_believers(&self) -> Result<(), String> {
        for (index, side) in self.sides.iter().enumerate() {
            for claim in side.program.claims.values() {
                let is_excused = self.forced.contains(&claim.token)
                    && !side.program.heard.contains(&claim.token);
                let believes = claim.stage == Stage::Held
                    && claim.is_handed_over
                    && claim.sure > self.time
                    && !is_excused;
                if believes && !self.server.has_token(claim.token) {
                    let (token, time) = (claim.token, self.time);
                    return Err(format!(
                        "program {index} believes to hold {token} at {time}"
                    ));
                }
            }
        }
        Ok(())
    }

    fn is_at_rest(&self) -> bool {
        let sides = &self.sides;
        self.server.is_free()
            && sides.iter().all(|side| side.program.is_idle())
            && sides.iter().flat_map(|side| &side.tasks).all(Task::is_idle)
    }

    fn unrest(&self) -> String {
        let waits = self.sides.iter().flat_map(|side| &side.tasks);
        let waits = waits.filter(|task| !task.is_idle()).count();
        if waits > 0 {
            format!("{waits} tasks wait forever")
        } else if self.server.is_free() {
            "a release is never finished".to_owned()
        } else {
            "the lock is held forever".to_owned()
        }
    }
}

/// When a message arrives behind the last one of its connection; none: never, as all that come after it.
fn arrival(last: &mut u64, time: u64, delay: Option<u64>) -> Option<u64> {
    *last = delay.map_or(u64::MAX, |delay| (time + delay).max(*last));
    (*last < u64::MAX).then_some(*last)
}
