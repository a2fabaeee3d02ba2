//! Clients at work while the primary changes.

use crate::ledger::{Asker, Ledger};
use redis::{Cmd, Connection, ConnectionLike};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};
use testbed::{
    Expect, Grant, Refusal, Reply, Server, cmd, eventually, patience, post, waiters, within,
};

/// Held by one client for the whole test. All keys are in its slot, where there are slots.
pub(crate) const KEY: &str = "{foo}";
const KEYS: usize = 16;
/// Each at one key. Some keys have two, so that one waits; some have one or none, so that they are free
/// now and then.
const CONTENDERS: usize = 12;
const WITH_TWO: usize = 4;
const KEEPERS: usize = 2;
/// Nobody's lease ends in a test.
const LEASE_MS: u32 = 600_000;
const BLOCK_MS: u32 = 500;
/// How long a switch may take on a busy machine, with all that is waited for.
const LONGEST: Duration = Duration::from_secs(60);
/// So many grants show that a primary is at work.
const SOME: usize = 200;

/// Where to go next: from the server that did not take a call, and what it said if it answered.
pub(crate) type Compass<'a> = dyn Fn(usize, Option<&Refusal>) -> usize + Sync + 'a;

/// A call that waits for a lock that is never free, and has no end of its own.
#[track_caller]
pub(crate) fn line_up(primary: &Server) -> Connection {
    let mut c = primary.connection();
    cmd!(c, "LOCK.ACQUIRE", KEY, "holder", "PX", LEASE_MS).grant();
    let mut waiter = primary.connection();
    post!(waiter, "LOCK.ACQUIRE", KEY, "waiter", "BLOCK", 0);
    eventually(|| waiters(&mut c, KEY) == ["waiter"], "the call to wait");
    waiter
}

/// Demands that a server is a replica of another, and in step.
#[track_caller]
pub(crate) fn assert_follows(replica: &Server, primary: &Server) {
    let port = replica.info_field("replication", "master_port");
    assert_eq!(port, primary.port().to_string());
    primary.wait_for_sync(replica);
}

/// Demands that a server which is started again is a replica from the beginning.
#[track_caller]
pub(crate) fn assert_restarts_as_replica(server: &mut Server) {
    server.restart();
    assert_eq!(server.info_field("replication", "role"), "slave");
}

/// Servers, and clients that find their way between them.
pub(crate) struct Load<'a> {
    pub(crate) servers: &'a [Server],
    pub(crate) compass: &'a Compass<'a>,
    ledger: Ledger,
    is_over: AtomicBool,
}

impl<'a> Load<'a> {
    pub(crate) fn new(servers: &'a [Server], compass: &'a Compass<'a>) -> Self {
        Self {
            servers,
            compass,
            ledger: Ledger::default(),
            is_over: AtomicBool::new(false),
        }
    }

    /// Has clients work before, during and after a switch, and prints for how long nothing was granted.
    pub(crate) fn around(&self, what: &str, switch: impl FnOnce()) {
        scope(|scope| {
            for number in 0..CONTENDERS {
                scope.spawn(move || {
                    Client::new(self, number).contend(number % (CONTENDERS - WITH_TWO), 0);
                });
            }
            for number in 0..KEEPERS {
                scope.spawn(move || Client::new(self, 100 + number).keep());
            }
            // Two for each server, who ask there and nowhere else.
            for server in 0..self.servers.len() {
                scope.spawn(move || Client::stubborn(self, server, 0).contend(server, 1));
                scope.spawn(move || Client::stubborn(self, server, 1).keep());
            }
            let _over = Over(&self.is_over);
            let start = Instant::now();
            self.wait_for_grants(start);
            let began = Instant::now();
            switch();
            self.wait_for_grants(Instant::now());
            let [any, guided] = self.ledger.longest_gaps_since(began);
            println!(
                "{what}: no server granted anything for {any:?}, clients got nothing for {guided:?}"
            );
        });
    }

    fn wait_for_grants(&self, since: Instant) {
        let enough = || {
            sleep(Duration::from_millis(20));
            self.ledger.granted_since(since) >= SOME
        };
        within(LONGEST, enough, "clients to be granted locks");
    }

    /// Demands that no lock was granted twice, that no grant was lost to its owner, and that the primary
    /// has all grants that were not given back.
    #[track_caller]
    pub(crate) fn assert_sound(&self, primary: &Server) {
        let violations = self.ledger.violations();
        assert!(violations.is_empty(), "{violations:#?}");
        let kept = self.ledger.kept();
        assert!(!kept.is_empty(), "no grant was to be kept");
        let mut c = primary.connection();
        for (key, grant) in &kept {
            let now = cmd!(c, "LOCK.INFO", key).lock_info();
            let kept = (&grant.owner, grant.token);
            assert_eq!((&now.owner, now.token), kept, "{key}");
        }
        let count = kept.len();
        println!("all of {count} grants that were not given back stand");
    }
}

/// Ends all clients, also when the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

struct Client<'a> {
    load: &'a Load<'a>,
    owner: String,
    /// Where it begins each time, and continues asking.
    home: Option<usize>,
    at: usize,
    connection: Option<Connection>,
}

impl<'a> Client<'a> {
    fn new(load: &'a Load<'a>, number: usize) -> Self {
        Self {
            load,
            owner: format!("client-{number}"),
            home: None,
            at: 0,
            connection: None,
        }
    }

    fn stubborn(load: &'a Load<'a>, server: usize, number: usize) -> Self {
        Self {
            owner: format!("stubborn-{server}-{number}"),
            home: Some(server),
            ..Self::new(load, 0)
        }
    }

    fn is_over(&self) -> bool {
        self.load.is_over.load(Relaxed)
    }

    fn asker(&self) -> Asker {
        match self.home {
            None => Asker::Guided,
            Some(_) => Asker::Stubborn,
        }
    }

    /// Takes, renews and gives back a lock that others want too, and then one so many keys further.
    fn contend(mut self, first: usize, step: usize) {
        for number in (0..).map(|turn| first + turn * step) {
            if self.is_over() {
                return;
            }
            let key = format!("{KEY}contended-{}", number % KEYS);
            if let Some(home) = self.home {
                self.go(home);
            }
            let block = self.home.is_none().then_some(BLOCK_MS);
            let Some(grant) = self.acquire(&key, block) else {
                continue;
            };
            self.load.ledger.enter(self.asker(), &key, &grant);
            sleep(Duration::from_millis(1));
            self.check(&key, &grant, "LOCK.RENEW");
            sleep(Duration::from_millis(1));
            self.load.ledger.leave(&key, &grant);
            self.check(&key, &grant, "LOCK.RELEASE");
            sleep(Duration::from_millis(2));
        }
    }

    /// Takes one lock after the other, and gives none back.
    fn keep(mut self) {
        for number in 0.. {
            let key = format!("{KEY}kept-{}-{number}", self.owner);
            let grant = loop {
                if self.is_over() {
                    return;
                }
                if let Some(home) = self.home {
                    self.go(home);
                }
                if let Some(grant) = self.acquire(&key, None) {
                    break grant;
                }
            };
            self.load.ledger.keep(self.asker(), &key, grant);
            sleep(Duration::from_millis(2));
        }
    }

    fn acquire(&mut self, key: &str, block: Option<u32>) -> Option<Grant> {
        // `HOLDS 1`: where the reply was lost, the same call tells of the same grant.
        let mut call = redis::cmd("LOCK.ACQUIRE");
        call.arg(key).arg(&self.owner).arg("PX").arg(LEASE_MS);
        call.arg("HOLDS").arg(1);
        if let Some(block) = block {
            call.arg("BLOCK").arg(block);
        }
        match self.call(&call) {
            Some(Ok(redis::Value::Nil)) => None,
            Some(Ok(value)) => Some(value.grant()),
            Some(Err(refusal)) => {
                self.turn_away(Some(&refusal));
                None
            }
            None => {
                self.turn_away(None);
                None
            }
        }
    }

    /// A renewal or release of a grant that stands: it must be taken.
    fn check(&mut self, key: &str, grant: &Grant, command: &str) {
        let mut call = redis::cmd(command);
        call.arg(key).arg(&self.owner).arg("TOKEN").arg(grant.token);
        let start = Instant::now();
        let mut may_be_done = false;
        loop {
            match self.call(&call) {
                Some(Ok(_)) => return,
                Some(Err(refusal)) => match refusal.code() {
                    "NOTHELD" | "NOTOWNER" | "FENCED" => {
                        if !(may_be_done && command == "LOCK.RELEASE") {
                            let what = format!("{key}: {grant:?} is lost: {refusal}");
                            self.load.ledger.violation(what);
                        }
                        return;
                    }
                    _ => self.turn_away(Some(&refusal)),
                },
                None => {
                    may_be_done = true;
                    self.turn_away(None);
                }
            }
            if start.elapsed() > patience(LONGEST) {
                let what = format!("{key}: {command} is not taken by any server");
                self.load.ledger.violation(what);
                return;
            }
        }
    }

    /// None where the connection failed: the call may have been done.
    fn call(&mut self, call: &Cmd) -> Option<Reply> {
        if self.connection.is_none() {
            let client = self.load.servers[self.at].client();
            let connection = client.get_connection_with_timeout(patience(Duration::from_secs(1)));
            let connection = connection.ok()?;
            connection.set_read_timeout(Some(patience(LONGEST))).ok()?;
            self.connection = Some(connection);
        }
        let answer = self.connection.as_mut()?.req_command(call);
        if answer.is_err() {
            self.connection = None;
        }
        answer.ok().map(Expect::reply)
    }

    fn turn_away(&mut self, refusal: Option<&Refusal>) {
        sleep(Duration::from_millis(5));
        let next = (self.load.compass)(self.at, refusal);
        self.go(next);
    }

    fn go(&mut self, server: usize) {
        if self.at != server {
            self.at = server;
            self.connection = None;
        }
    }
}
