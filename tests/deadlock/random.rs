//! Calls at random, each judged beside a naive model of what the server itself says of its locks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use redis::Connection;
use testbed::{Expect, Server, Talk, cmd, eventually, traffic};

use crate::support::{line, run, text};

const STEPS: usize = 600;
const OWNERS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
const LOCKS: [(u8, &str); 6] = [(0, "k"), (0, "j"), (0, "l"), (0, "m"), (4, "k"), (4, "n")];
const KINDS: [(&str, i64); 5] = [("", 1), ("", 1), ("", 1), ("SHARED", 0), ("LIMIT 2", 2)];

/// Who holds a lock or waits for it, with the limits, in order.
#[derive(Debug, Default)]
struct Lock {
    holders: Vec<(String, i64)>,
    line: Vec<(String, i64)>,
}

type Locks = BTreeMap<(u8, &'static str), Lock>;

/// The owners that this one waits for at a lock where it waits in line, or would at its end.
fn waits_for(lock: &Lock, owner: &str, new_limit: i64) -> Vec<String> {
    let place = lock.line.iter().position(|(name, _)| name == owner);
    let limit = place.map_or(new_limit, |place| lock.line[place].1);
    let mut seen = BTreeSet::new();
    let before = lock.line[..place.unwrap_or(lock.line.len())].iter();
    let behind_plain = before
        .filter(|(name, _)| seen.insert(name))
        .any(|(_, limit)| *limit == 1);
    let all = limit == 1 || behind_plain;
    let must_go = lock.holders.iter().filter(|(_, limit)| all || *limit == 1);
    must_go.map(|(name, _)| name.clone()).collect()
}

/// How many owners are in the shortest circle that this call would close by waiting.
fn circle(locks: &Locks, caller: &str, wanted: (u8, &'static str), limit: i64) -> Option<usize> {
    let awaited = |owner: &str| -> Vec<(u8, &'static str)> {
        let waits = |lock: &Lock| lock.line.iter().any(|(name, _)| name == owner);
        let mut all = locks.iter().filter(|(_, lock)| waits(lock));
        all.by_ref().map(|(place, _)| *place).collect()
    };
    if awaited(caller).iter().any(|place| *place != wanted) {
        return None;
    }
    let mut next = VecDeque::from([(caller.to_owned(), wanted, 1)]);
    let mut seen = BTreeSet::new();
    while let Some((owner, place, length)) = next.pop_front() {
        for holder in waits_for(&locks[&place], &owner, limit) {
            if holder == caller {
                return Some(length);
            }
            if let [place] = awaited(&holder)[..]
                && seen.insert(holder.clone())
            {
                next.push_back((holder, place, length + 1));
            }
        }
    }
    None
}

struct Play {
    server: Server,
    /// A connection to each database.
    c: BTreeMap<u8, Connection>,
    waiting: BTreeMap<i64, Connection>,
}

impl Play {
    fn at(&mut self, database: u8) -> &mut Connection {
        self.c.get_mut(&database).expect("a connection")
    }

    /// What the server says of all locks.
    fn look(&mut self) -> Locks {
        let mut locks = Locks::new();
        for (database, key) in LOCKS {
            let c = self.at(database);
            let mut list = |command: &str| -> Vec<(String, i64)> {
                let items = cmd!(*c, command, key).items().into_iter();
                let fields = items.map(Expect::fields);
                let pair = |mut fields: BTreeMap<String, redis::Value>| {
                    let mut take = |name| fields.remove(name).expect("a field");
                    (take("owner").text(), take("limit").int())
                };
                fields.map(pair).collect()
            };
            let (holders, line) = (list("LOCK.HOLDERS"), list("LOCK.WAITERS"));
            locks.insert((database, key), Lock { holders, line });
        }
        locks
    }

    /// What `CLIENT LIST` says of a client: whether it is blocked, and its last command.
    fn client(&mut self, id: i64) -> Option<(bool, String)> {
        let list = cmd!(*self.at(0), "CLIENT", "LIST", "ID", id).text();
        let field = |name: &str| {
            let mut fields = list.split_whitespace();
            fields.find_map(|field| Some(field.strip_prefix(name)?.to_owned()))
        };
        Some((field("flags=")?.contains('b'), field("cmd=")?))
    }

    /// Ends one wait, or a grant.
    fn end(&mut self, random: &mut StdRng) {
        let locks = self.look();
        let (place, lock) = locks
            .iter()
            .nth(random.random_range(0..locks.len()))
            .unwrap();
        let (database, key) = *place;
        let waiters = lock.line.len();
        match (random.random_range(0..5), lock.holders.choose(random)) {
            (0, _) if !lock.line.is_empty() => {
                let (owner, _) = lock.line.choose(random).unwrap();
                cmd!(*self.at(database), "LOCK.RELEASE", key, owner, "ALL").int();
            }
            (1, _) if !self.waiting.is_empty() => {
                let index = random.random_range(0..self.waiting.len());
                let id = *self.waiting.keys().nth(index).unwrap();
                self.waiting.remove(&id);
                eventually(|| self.client(id).is_none(), "a client to be gone");
            }
            (2, Some(_)) => {
                cmd!(*self.at(database), "DEL", key).int();
                let served = |play: &mut Self| {
                    let after = &play.look()[place];
                    waiters == 0 || !after.holders.is_empty() || after.line.is_empty()
                };
                eventually(|| served(self), "a waiter to be served");
            }
            (_, Some((owner, _))) => {
                cmd!(*self.at(database), "LOCK.RELEASE", key, owner, "ALL").int();
            }
            _ => {}
        }
    }
}

#[test]
fn each_call_gets_the_answer_of_a_naive_model() {
    let server = Server::start();
    let mut random = StdRng::seed_from_u64(traffic::seed("DEADLOCK_SEED"));
    let connect = |database| {
        let mut c = server.connection();
        cmd!(c, "SELECT", database).okay();
        (database, c)
    };
    let c = [0, 4].map(connect).into();
    let waiting = BTreeMap::new();
    let mut play = Play { server, c, waiting };
    let mut counts = [0; 3];
    for _ in 0..STEPS {
        let blocked: Vec<_> = play.waiting.keys().copied().collect();
        for id in blocked {
            if play.client(id).is_none_or(|(is_blocked, _)| !is_blocked) {
                play.waiting.remove(&id);
            }
        }
        if random.random_ratio(u32::try_from(play.waiting.len()).unwrap().min(9), 10) {
            play.end(&mut random);
            continue;
        }
        let (owner, place) = (
            OWNERS.choose(&mut random).unwrap(),
            *LOCKS.choose(&mut random).unwrap(),
        );
        let (kind, limit) = *KINDS.choose(&mut random).unwrap();
        let locks = play.look();
        // One task in most cases.
        let waits = |lock: &Lock| lock.line.iter().any(|(name, _)| name == owner);
        if locks.values().any(waits) && random.random_ratio(4, 5) {
            continue;
        }
        let expected = circle(&locks, owner, place, limit);
        let mut c = play.server.connection();
        cmd!(c, "SELECT", place.0).okay();
        let id = run(&mut c, "CLIENT ID").int();
        let call = format!("LOCK.ACQUIRE {} {owner} {kind} PX 600000 BLOCK 0", place.1);
        c.post(&line(&call));
        let mut blocked = false;
        let judged = || {
            let (is_blocked, command) = play.client(id).expect("its client");
            blocked = is_blocked;
            command == "lock.acquire"
        };
        eventually(judged, "a call to be judged");
        if blocked {
            assert_eq!(expected, None, "{call} waits: {locks:#?}");
            play.waiting.insert(id, c);
            counts[0] += 1;
            continue;
        }
        match c.receive() {
            Err(refusal) if refusal.code() == "DEADLOCK" => {
                let owners = expected.unwrap_or_else(|| panic!("{call} is told: {locks:#?}"));
                assert_eq!(refusal.text(), text(owners), "{call}: {locks:#?}");
                counts[1] += 1;
            }
            Err(refusal) => assert_eq!(refusal.code(), "NOTALONE"),
            Ok(_) => counts[2] += 1,
        }
    }
    let [waited, told, granted] = counts;
    println!("measured: {waited} waited, {told} were told, {granted} were granted at once");
    assert!(told > 0 && waited > 0 && granted > 0);
}
