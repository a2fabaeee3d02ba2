//! Connections that walk from state to state at random, and meet on a few locks.

use super::arena::{Arena, Client, Setting, bound};
use super::catalogue::{Cut, End, OTHER_DATABASE, STATES, State, Wrap};
use super::forms::FORMS;
use super::nemesis;
use super::walker::Walker;
use crate::*;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use redis::Cmd;
use std::collections::{HashSet, VecDeque};
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};
use testbed::line;
use testbed::state::assert_same;

const SETTINGS: [Setting; 4] = [
    Setting::Plain,
    Setting::Threads,
    Setting::Cluster,
    Setting::Replica,
];
const SECONDS: usize = 2;
const WALKERS: usize = 40;
/// With one tag, which [`super::script`] looks for.
const KEYS: [&str; 3] = ["k{w}", "l{w}", "gate{w}"];
/// How many steps are taken between two looks at everything.
const STEPS: usize = 400;
/// How many of the last steps are told when something is wrong.
const TOLD: usize = 60;
#[test]
fn connections_that_walk_from_state_to_state_leave_each_lock_with_its_owner() {
    let seed = seed("HOSTILE_SEED");
    let seconds = amount("HOSTILE_SECONDS", SECONDS);
    let end = Instant::now() + Duration::from_secs(u64::try_from(seconds).expect("seconds"));
    thread::scope(|scope| {
        let walks = SETTINGS.map(|setting| scope.spawn(move || Walk::on(setting, seed).run(end)));
        for walk in walks {
            if let Err(panic) = walk.join() {
                resume_unwind(panic);
            }
        }
    });
}

struct Walk {
    arena: Arena,
    setting: Setting,
    random: StdRng,
    keys: Vec<String>,
    databases: Vec<i64>,
    walkers: Vec<Walker>,
    /// How many walkers there were.
    born: usize,
    /// The grants that were read, by owner and token.
    told: HashSet<(Vec<u8>, i64)>,
    /// Owners that may have been granted what they could not read.
    excused: HashSet<Vec<u8>>,
    /// Database, key and owner of calls that waited when their connection was killed.
    abandoned: HashSet<(i64, String, Vec<u8>)>,
    /// The last steps.
    diary: VecDeque<String>,
}

impl Walk {
    fn on(setting: Setting, seed: u64) -> Self {
        let arena = Arena::start(setting);
        let databases = if arena.has_databases {
            vec![0, OTHER_DATABASE]
        } else {
            vec![0]
        };
        Self {
            arena,
            setting,
            random: StdRng::seed_from_u64(seed),
            keys: KEYS.map(str::to_owned).to_vec(),
            databases,
            walkers: Vec::new(),
            born: 0,
            told: HashSet::new(),
            excused: HashSet::new(),
            abandoned: HashSet::new(),
            diary: VecDeque::new(),
        }
    }

    fn run(mut self, end: Instant) {
        let (mut steps, mut looks) = (0, 0);
        while Instant::now() < end || looks == 0 {
            for _ in 0..STEPS {
                self.step();
            }
            self.look();
            (steps, looks) = (steps + STEPS, looks + 1);
        }
        self.end_all();
        self.arena.check_end();
        if let Some(replica) = &self.arena.replica {
            self.arena.server.wait_for_sync(replica);
            let (server, replica) = (self.arena.server.state(), replica.state());
            assert_same(&server, &replica, "on the replica");
        }
        println!(
            "{:?}: {steps} steps, {} connections",
            self.setting, self.born
        );
        self.diary.clear();
    }

    fn step(&mut self) {
        while self.walkers.len() < WALKERS {
            self.born += 1;
            let walker = Walker::new(&mut self.arena, self.born);
            self.walkers.push(walker);
        }
        match self.random.random_range(0..10) {
            0 => self.inject_a_fault(),
            _ => self.act(),
        }
        if self.random.random_ratio(1, 8) {
            self.pump();
        }
    }

    /// Reads what there is, and lets go of who has ended.
    fn pump(&mut self) {
        let mut left = Vec::new();
        for mut walker in self.walkers.drain(..) {
            walker.peer.pump();
            self.told.extend(walker.peer.told.drain());
            if !walker.peer.ended {
                left.push(walker);
            } else if !walker.leaves {
                // The server has closed it, perhaps with replies unsent.
                self.excused.insert(walker.owner());
            }
        }
        self.walkers = left;
    }

    /// Some walker sends a command, in a state or without, or ends.
    fn act(&mut self) {
        let at = self.random.random_range(0..self.walkers.len());
        if self.walkers[at].leaves {
            return;
        }
        let state = STATES
            .choose(&mut self.random)
            .filter(|_| self.random.random_ratio(1, 3));
        let note = self.walkers[at].to_string();
        match state.and_then(|state| state.end) {
            Some(End::AtOnce(cut) | End::Later(cut)) => {
                self.note(format!("{note}: {cut:?}"));
                self.walkers[at].leaves = true;
                if cut != Cut::Half {
                    self.excused.insert(self.walkers[at].owner());
                }
                self.walkers[at].spoilt = cut == Cut::Garbage;
                self.walkers[at].peer.cut(cut);
            }
            Some(End::By(lines)) => self.end_by(at, lines),
            None => self.send(at, state),
        }
    }

    fn send(&mut self, at: usize, state: Option<&State>) {
        // There is to be somebody in line.
        let waits = self.random.random_ratio(1, 3);
        let forms: Vec<_> = FORMS.iter().filter(|form| !waits || form.waits()).collect();
        let form = forms.choose(&mut self.random).expect("forms");
        let key = self.keys.choose(&mut self.random).expect("keys");
        let walker = &mut self.walkers[at];
        walker.names.key.clone_from(key);
        walker.names.token = walker.peer.token;
        let before = state.map_or(&[][..], |state| state.before);
        let behind = state.map_or(&[][..], |state| state.after);
        let wraps: Vec<Wrap> = state.and_then(|state| state.wrap).into_iter().collect();
        let closes = behind.iter().any(|line| line.contains("KILL"));
        if closes || state.is_some_and(|state| state.silent || state.closes) {
            self.excused.insert(walker.owner());
        }
        let plain = |line: &&str| walker.names.packed(line, &[]);
        let mut bytes: Vec<u8> = before.iter().flat_map(plain).collect();
        bytes.extend(walker.names.packed(form.line, &wraps));
        bytes.extend(behind.iter().flat_map(plain));
        walker.peer.send(&bytes);
        let name = state.map_or("", |state| state.name);
        let note = format!("{walker}: {name} {} {key}", form.line);
        self.note(note);
    }

    /// Another client ends a connection or its wait: of one that waits, if any does.
    fn end_by(&mut self, at: usize, lines: &[&str]) {
        let clients = self.arena.clients();
        let client_of = |walker: &Walker| clients.get(&walker.names.address);
        let waits = |walker: &Walker| client_of(walker).is_some_and(Client::waits);
        let waiting: Vec<usize> = (0..self.walkers.len())
            .filter(|&at| !self.walkers[at].leaves && waits(&self.walkers[at]))
            .collect();
        let at = *waiting.choose(&mut self.random).unwrap_or(&at);
        let walker = &mut self.walkers[at];
        let Some(client) = clients.get(&walker.names.address) else {
            return;
        };
        walker.names.id.clone_from(&client.id);
        let mut commands: Vec<_> = lines
            .iter()
            .map(|line| walker.names.command(line))
            .collect();
        let owner = walker.owner();
        let note = format!("{walker}: {lines:?}");
        self.note(note);
        let says = |word: &str| lines.iter().any(|line| line.contains(word));
        if says("CLIENT KILL") {
            self.kill(at, commands.last().expect("a command"), client);
            return;
        }
        // Where a user goes, its connections do.
        if says("DELUSER") {
            self.excused.insert(owner);
        }
        if says("UNBLOCK") && Server::version().number < (7, 2, 0) {
            // Redis 7.0 ends when a client is to be unblocked that waits for a pause to end.
            commands.insert(0, line("CLIENT UNPAUSE"));
        }
        self.arena.ask(&commands);
    }

    /// What it was granted before, it may not have read; what it is granted now, it gives back.
    fn kill(&mut self, at: usize, kill: &Cmd, client: &Client) {
        let owner = self.walkers[at].owner();
        self.walkers[at].leaves = true;
        self.excused.insert(owner.clone());
        let (database, id) = (client.database, &client.id);
        let waited = self.arena.kill_waiting(database, &self.keys, kill, id);
        if self.walkers[at].alone {
            let abandoned = waited.into_iter().map(|key| (database, key, owner.clone()));
            self.abandoned.extend(abandoned);
        }
        self.check_owners();
    }

    fn inject_a_fault(&mut self) {
        let key = self.keys.choose(&mut self.random).expect("keys");
        if let Some(command) = nemesis::fault(&mut self.random, key) {
            let _ = self.arena.ask_one(&command);
            self.note(command);
            return;
        }
        for &database in &self.databases {
            self.arena.free_waited(database, &self.keys);
        }
    }

    /// Looks at everything, with the connections as they are, or when nobody waits any more, or when
    /// all are closed.
    fn look(&mut self) {
        for answer in self.arena.ask(&nemesis::mend()) {
            answer.expect("a command that mends");
        }
        match self.random.random_range(0..3) {
            0 => self.end_all(),
            1 => self.serve_all(),
            _ => {}
        }
        self.check_owners();
        if self.walkers.is_empty() {
            let mut delete = redis::cmd("DEL");
            delete.arg(&self.keys);
            for &database in &self.databases {
                let select = line(&format!("SELECT {database}"));
                self.arena.ask(&[select, delete.clone(), line("SELECT 0")]);
            }
            self.abandoned.clear();
            self.told.clear();
            self.excused.clear();
        }
    }

    /// Takes the locks from their holders until nobody waits, and everybody has been answered.
    fn serve_all(&mut self) {
        self.note("all are served".to_owned());
        for walker in &mut self.walkers {
            walker.say_last();
        }
        let start = Instant::now();
        loop {
            self.pump();
            let mut waiting = Vec::new();
            for &database in &self.databases {
                waiting.extend(self.arena.free_waited(database, &self.keys));
            }
            let clients = self.arena.clients();
            let busy = self.walkers.iter().find_map(|walker| {
                let client = clients.get(&walker.names.address);
                (!walker.is_done(client)).then(|| format!("{walker}: {client:?}"))
            });
            match (waiting.first(), busy) {
                (None, None) => return,
                (waiting, busy) => assert!(
                    start.elapsed() < bound(),
                    "a hang: {waiting:?} is waited for, {busy:?} does not come to an end"
                ),
            }
        }
    }

    fn end_all(&mut self) {
        self.note("all end".to_owned());
        for _ in 0..WALKERS / 4 {
            if !self.walkers.is_empty() {
                self.end_by(0, &["CLIENT KILL ADDR @address"]);
            }
        }
        for walker in &mut self.walkers {
            let cut = match self.random.random_range(0..4) {
                0 => Cut::Reset,
                _ => Cut::Half,
            };
            if cut == Cut::Reset {
                self.excused.insert(walker.owner());
            }
            walker.leaves = true;
            walker.peer.cut(cut);
        }
        let start = Instant::now();
        while !self.walkers.is_empty() {
            self.pump();
            let left = self.walkers.first();
            assert!(
                start.elapsed() < bound(),
                "a hang: {} is not closed",
                left.expect("a walker")
            );
        }
        self.arena.check_deserted();
    }

    fn check_owners(&mut self) {
        let start = Instant::now();
        while let Err(what) = self.judge() {
            assert!(start.elapsed() < bound(), "{what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Every lock has an owner who knows of it.
    fn judge(&mut self) -> Result<(), String> {
        for database in self.databases.clone() {
            let locks = self.arena.locks(database, &self.keys);
            self.pump();
            for (key, lock) in self.keys.iter().zip(locks) {
                let Some(lock) = lock else { continue };
                let owner = lock.owner.clone();
                let told = self.told.contains(&(owner.clone(), lock.token));
                let wrong = if lock.ttl_ms < 0 {
                    "without a lease"
                } else if told || owner == b"applied" || owner == b"them" {
                    continue;
                } else if self
                    .abandoned
                    .contains(&(database, key.clone(), owner.clone()))
                {
                    "of a call whose connection was killed"
                } else if self.excused.contains(&owner) || !owner.starts_with(b"w-") {
                    continue;
                } else {
                    "of an owner who was not told"
                };
                return Err(format!("a lock {wrong}: {key} in {database}: {lock:?}"));
            }
        }
        Ok(())
    }

    fn note(&mut self, step: String) {
        self.diary.push_back(step);
        if self.diary.len() > TOLD {
            self.diary.pop_front();
        }
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        if thread::panicking() {
            let steps: Vec<_> = self.diary.iter().map(String::as_str).collect();
            eprintln!("{:?}, the last steps:\n{}", self.setting, steps.join("\n"));
        }
    }
}
