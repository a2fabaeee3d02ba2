//! A batch: some cases at once, each on a lock of its own, from an empty server to an empty server.

use super::arena::{Arena, Client, bound};
use super::case::Case;
use super::catalogue::{Cut, End};
use super::forms::Situation;
use super::peer::Peer;
use super::script::Names;
use std::collections::HashSet;
use std::time::Instant;
use testbed::state::unix_micros;
use testbed::{LockInfo, line};

/// The tokens that a case may use are so many.
const TOKENS_OF_A_CASE: i64 = 20;

pub(crate) struct Batch<'a> {
    arena: &'a mut Arena,
    keys: Vec<String>,
    databases: Vec<i64>,
    plays: Vec<Play<'a>>,
}

/// A case that is being played.
struct Play<'a> {
    case: &'a Case,
    names: Names,
    peer: Peer,
    helper: Option<Peer>,
    /// Its call was seen to wait for the lock. A grant that it gets then is given back, unless it
    /// reads it.
    waited: bool,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(arena: &'a mut Arena, number: usize, cases: &'a [Case]) -> Self {
        let first_token = unix_micros();
        let plays: Vec<_> = (0..)
            .zip(cases)
            .map(|(at, case)| {
                let peer = Peer::of(&arena.server);
                Play {
                    case,
                    names: Names {
                        key: format!("k{{{number}-{at}}}"),
                        me: format!("me-{number}-{at}"),
                        token: first_token + at * TOKENS_OF_A_CASE,
                        address: peer.address.clone(),
                        id: "0".to_owned(),
                        listener: arena.listener.clone(),
                    },
                    peer,
                    helper: case.helper().map(|_| Peer::of(&arena.server)),
                    waited: false,
                }
            })
            .collect();
        let other = cases.iter().find_map(Case::other_database);
        let other = other.filter(|_| arena.has_databases);
        Self {
            arena,
            keys: plays.iter().map(|play| play.names.key.clone()).collect(),
            databases: [Some(0), other].into_iter().flatten().collect(),
            plays,
        }
    }

    pub(crate) fn play(mut self) {
        self.prepare();
        for play in &mut self.plays {
            play.peer.send(&play.case.sent(&play.names));
            if let Some(End::AtOnce(cut)) = play.case.end() {
                play.peer.cut(cut);
            }
        }
        self.arena.catch_up();
        self.settle();
        self.see_who_waits();
        self.end_some();
        self.free_all();
        self.settle();
        self.check_owners();
        self.close();
    }

    fn prepare(&mut self) {
        for &database in &self.databases {
            let mut commands = vec![line(&format!("SELECT {database}"))];
            for play in &self.plays {
                if database == 0 || play.case.other_database() == Some(database) {
                    commands.extend(play.case.prepared(&play.names));
                }
            }
            commands.push(line("SELECT 0"));
            self.arena.ask(&commands);
        }
        for play in &mut self.plays {
            if let (Some(helper), Some(call)) = (&mut play.helper, play.case.helper()) {
                helper.send(&play.names.packed(call, &[]));
            }
        }
        let plays = &self.plays;
        self.arena.until(|arena| {
            let clients = arena.clients();
            let mut helpers = plays.iter().filter_map(|play| play.helper.as_ref());
            let waits = |helper: &Peer| clients.get(&helper.address).is_some_and(Client::waits);
            match helpers.find(|helper| !waits(helper)) {
                Some(_) => Err("the others do not wait".to_owned()),
                None => Ok(()),
            }
        });
    }

    /// Waits until the server has run whatever it can of what was sent.
    fn settle(&mut self) {
        let plays = &mut self.plays;
        self.arena.until(|arena| {
            let clients = arena.clients();
            for play in &mut *plays {
                play.pump();
                let client = clients.get(&play.peer.address);
                if let Some(client) = client {
                    play.names.id.clone_from(&client.id);
                }
                let settled = match (play.peer.ended, client) {
                    (true, client) => client.is_none(),
                    (false, None) => false,
                    (false, Some(client)) => {
                        // Without a reply to send, servers never come to close behind it.
                        let stuck = client.closes() && play.case.is_silent();
                        client.is_at("echo") || client.waits() || stuck
                    }
                };
                if !settled {
                    let ended = play.peer.ended;
                    return Err(format!("{}: {client:?}, ended: {ended}", play.case));
                }
            }
            Ok(())
        });
    }

    fn see_who_waits(&mut self) {
        for &database in &self.databases {
            let waiters = self.arena.waiters(database, &self.keys);
            for (play, waiters) in self.plays.iter_mut().zip(waiters) {
                play.waited |= waiters.contains(&play.names.id);
            }
        }
    }

    /// Ends connections while the others hold their locks: they have left every line then.
    fn end_some(&mut self) {
        let mut gone = HashSet::new();
        for play in &mut self.plays {
            match play.case.end() {
                Some(End::Later(cut)) => {
                    play.peer.cut(cut);
                    if cut != Cut::Garbage {
                        gone.insert(play.peer.address.clone());
                    }
                }
                Some(End::By(lines)) => {
                    let commands: Vec<_> =
                        lines.iter().map(|line| play.names.command(line)).collect();
                    self.arena.ask(&commands);
                    if lines.iter().any(|line| line.starts_with("CLIENT KILL")) {
                        gone.insert(play.peer.address.clone());
                    }
                }
                _ => {}
            }
        }
        self.arena.until(|arena| {
            let clients = arena.clients();
            match gone.iter().find(|address| clients.contains_key(*address)) {
                Some(address) => Err(format!("{:?} is there yet", clients[address])),
                None => Ok(()),
            }
        });
    }

    /// Takes the locks from their holders until nobody waits for one.
    fn free_all(&mut self) {
        let start = Instant::now();
        loop {
            self.check_owners();
            let mut waiting = Vec::new();
            for &database in &self.databases {
                waiting.extend(self.arena.free_waited(database, &self.keys));
            }
            let Some(key) = waiting.first() else {
                return;
            };
            assert!(start.elapsed() < bound(), "a hang: {key} is waited for");
        }
    }

    /// Every lock has an owner who knows of it.
    fn check_owners(&mut self) {
        let Self {
            arena,
            keys,
            databases,
            plays,
        } = self;
        arena.until(|arena| {
            for &database in &*databases {
                let locks = arena.locks(database, keys);
                for (play, lock) in plays.iter_mut().zip(locks) {
                    play.pump();
                    if let Some(lock) = lock {
                        let case = play.case;
                        play.judge(&lock)
                            .map_err(|what| format!("{case}: {what}: {lock:?}"))?;
                    }
                }
            }
            Ok(())
        });
    }

    fn close(self) {
        let users: Vec<_> = self
            .plays
            .iter()
            .filter(|play| play.case.has_a_user())
            .map(|play| line(&format!("ACL DELUSER {}", play.names.me)))
            .collect();
        drop(self.plays);
        self.arena.check_deserted();
        self.arena.ask(&users);
        for database in [0, super::catalogue::OTHER_DATABASE] {
            self.arena.ask_one(&format!("SELECT {database}")).ok();
            let mut delete = redis::cmd("DEL");
            for key in &self.keys {
                delete.arg(key);
            }
            self.arena.ask(&[delete]);
        }
        self.arena.ask_one("SELECT 0").expect("a database");
    }
}

impl Play<'_> {
    fn pump(&mut self) {
        self.peer.pump();
        if let Some(helper) = &mut self.helper {
            helper.pump();
        }
    }

    fn judge(&self, lock: &LockInfo) -> Result<(), &'static str> {
        if lock.ttl_ms < 0 {
            return Err("a lock without a lease");
        }
        let known = (lock.owner.clone(), lock.token);
        let told_to = |peer: &Peer| peer.told.contains(&known);
        let told = told_to(&self.peer) || self.helper.as_ref().is_some_and(told_to);
        match &lock.owner[..] {
            b"them" | b"applied" => Ok(()),
            // As it was before, or as it was told.
            owner if owner == self.names.me.as_bytes() && lock.token == self.names.token => Ok(()),
            _ if told => Ok(()),
            b"helper" => Err("the other was not told of its grant"),
            owner if owner == self.names.me.as_bytes() || self.case.form.line.contains('*') => {
                if self.may_be_unread() {
                    Ok(())
                } else {
                    Err("a lock without an owner")
                }
            }
            _ => Err("the lock of a stranger"),
        }
    }

    /// Whether it may hold the lock without having read so.
    fn may_be_unread(&self) -> bool {
        let gone = self.peer.ended && !self.waited;
        // The grant may have come just before.
        let left = self.case.end() == Some(End::Later(Cut::Reset))
            && self.case.form.situation == Situation::Ending;
        self.case.is_silent() || gone || left
    }
}
