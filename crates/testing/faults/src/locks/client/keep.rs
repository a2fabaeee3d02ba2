//! Tasks that keep their grant (`KEEP`): on a connection of its own, on which nothing else is asked than
//! whether it is still there.

use super::Client;
use super::task::Held;
use crate::locks::line::{Answer, Line};
use crate::locks::protocol;
use crate::locks::stage::Stage;
use history::{Action, Down, Kept, Limit, Outcome};
use rand::RngExt;
use std::ops::Range;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The number of the first client's keeper connections; the others' follow.
pub(super) const KEEPERS: u32 = 600;

/// A lease that is renewed soon, in milliseconds.
const LEASE: Range<u64> = 1_000..1_500;
/// A lease that is longer than any stall of the server.
const LASTING: u64 = 4_000;
/// How long a keeper connection may be silent: longer than any of them is.
const SILENCE: u64 = 20_000;
/// How long a grant is kept.
const LENGTH: Range<u64> = 50..2_500;

/// How long the connection may be silent that is silent for too long in the end.
pub(super) const SHORT_SILENCE: u64 = 2_000;
/// For how long it is silent at first, which is not too long.
const QUIET: u64 = 1_500;
/// After this time of silence it has been closed, by contract and on a busy machine. In stalls of the server no
/// time passes.
pub(super) const TOO_QUIET: u64 = SHORT_SILENCE + 2_000 + 2_000;

/// A connection that keeps a grant.
struct Keeper<'s> {
    stage: &'s Stage,
    line: Line,
    kept: Kept,
}

impl Keeper<'_> {
    /// Whether the connection is still there.
    fn ping(&mut self) -> bool {
        let sent = self.stage.run.now();
        let is_there = matches!(self.line.ask(&redis::cmd("PING")), Answer::Value(_));
        if is_there {
            self.kept.heard = Some(sent);
        }
        is_there
    }

    /// Closes the connection, and waits until the server knows.
    fn close(self) -> Kept {
        self.line.close(self.stage);
        ended(self.kept, self.stage)
    }

    /// Whether its bytes get lost, so that neither end hears of the other.
    fn is_half_open(&self) -> bool {
        self.line.is_half_open(self.stage)
    }

    /// Waits until the server closes the connection by itself, of which the client cannot hear.
    fn await_close(self) -> Kept {
        let stage = self.stage;
        let (began, stalled) = (Instant::now(), stage.stalled());
        let most = Duration::from_millis(TOO_QUIET);
        while self.line.is_known(stage).unwrap_or(true) {
            if began.elapsed() > most + stage.stalled_since(stalled) {
                let trouble = "a half-open connection is open that has been silent for too long";
                stage.run.trouble(trouble);
                return self.close();
            }
            sleep(Duration::from_millis(5));
        }
        stage.run.count("closed when it was half-open", 1);
        ended(self.kept, stage)
    }
}

/// Nothing is renewed for it from now on.
pub(super) fn ended(kept: Kept, stage: &Stage) -> Kept {
    let until = stage.run.now();
    Kept { until, ..kept }
}

impl<'s> Client<'s> {
    /// Takes the lock, keeps it for a while, and lets go of it in one way or another.
    pub(super) fn keep(&mut self) {
        let (key, owner, limit) = (self.key(), self.owner(), self.limit());
        let action = Action::Acquire {
            limit,
            lease: Some(self.lease_to_keep()),
            block: self.random.random_ratio(4, 5),
            holds: None,
            token: None,
        };
        let wait_ms = self.random.random_range(20..900);
        let asked = self.ask_to_keep(&key, &owner, action, wait_ms, self.silence());
        let Some((mut keeper, held)) = asked else {
            return;
        };
        let length = self.random.random_range(LENGTH);
        if !self.stay(&mut keeper, &held, length) {
            if !keeper.is_half_open() {
                self.lose(keeper, &held);
            } else if self.random.random_ratio(1, 3) {
                self.move_on(keeper, &held, true);
            } else {
                // A lease later others have the lock.
                let kept = keeper.await_close();
                self.kept.push(kept);
            }
            return;
        }
        match self.random.random_range(0..5) {
            0 => self.move_on(keeper, &held, true),
            1 => self.move_on(keeper, &held, false),
            2 => {
                // Its lease is left to end.
                let kept = keeper.close();
                self.kept.push(kept);
            }
            _ => {
                self.give_back(&held);
                let kept = keeper.close();
                self.kept.push(kept);
            }
        }
    }

    /// One that is renewed soon; where the server stalls, also one that outlasts that.
    fn lease_to_keep(&mut self) -> u64 {
        if self.stage.habits.keeping.is_silent() && self.random.random_ratio(1, 3) {
            LASTING
        } else {
            self.random.random_range(LEASE)
        }
    }

    /// How long a keeper connection may be silent.
    fn silence(&self) -> u64 {
        if self.stage.habits.keeping.is_silent() {
            SHORT_SILENCE
        } else {
            SILENCE
        }
    }

    /// Keeps a lock that nobody else wants, and is silent for too long in the end.
    pub(crate) fn keep_silent(&mut self) {
        let action = Action::Acquire {
            limit: None,
            lease: Some(1_000),
            block: false,
            holds: None,
            token: None,
        };
        let asked = self.ask_to_keep("quiet", "quiet", action, 0, SHORT_SILENCE);
        let Some((mut keeper, _)) = asked else {
            return;
        };
        sleep(Duration::from_millis(QUIET));
        if !keeper.ping() {
            let trouble = "a connection was closed that had not been silent for too long";
            self.stage.run.trouble(trouble);
        }
        let stalled = self.stage.stalled();
        sleep(Duration::from_millis(TOO_QUIET));
        sleep(self.stage.stalled_since(stalled));
        if keeper.ping() {
            let trouble = "a connection is open that has been silent for too long";
            self.stage.run.trouble(trouble);
        } else {
            self.stage.run.count("closed when it was silent", 1);
        }
        let kept = keeper.close();
        self.kept.push(kept);
    }

    /// Makes a call with `KEEP` on a new connection. A grant is kept there.
    fn ask_to_keep(
        &mut self,
        key: &str,
        owner: &str,
        action: Action,
        wait_ms: u64,
        silence: u64,
    ) -> Option<(Keeper<'s>, Held)> {
        // Where connections fall silent, it is those that keep something.
        let is_direct = self.is_direct && !self.stage.habits.keeping.is_silent();
        let mut client = Client::new(self.stage, self.number + KEEPERS, is_direct);
        let mut command = protocol::command(key, owner, &action, wait_ms);
        command.arg("KEEP").arg(silence);
        let asked = self.stage.run.now();
        let outcome = client.ask_so(key, owner, action, &command);
        self.calls.append(&mut client.calls);
        let since = self.stage.run.now();
        let mut kept = Kept {
            key: key.to_owned(),
            owner: owner.to_owned(),
            token: None,
            asked,
            since,
            heard: None,
            until: since,
        };
        let mut line = client.lines.remove(&client.answered_by);
        for (_, other) in client.lines {
            other.close(self.stage);
        }
        let Outcome::Grant {
            token,
            holds,
            lease,
            limit,
            ..
        } = outcome
        else {
            if let Some(line) = line.take() {
                line.close(self.stage);
            }
            kept.until = self.stage.run.now();
            self.kept.push(kept);
            if outcome == Outcome::Lost {
                self.clean_up(key, owner);
            }
            return None;
        };
        kept.token = Some(token);
        let held = Held {
            key: key.to_owned(),
            owner: owner.to_owned(),
            token,
            holds,
            lease,
            limit: limit.or(Some(Limit::ONE)),
        };
        let stage = self.stage;
        line.map(|line| (Keeper { stage, line, kept }, held))
    }

    /// Works while the connection is there; whether it still is in the end.
    fn stay(&mut self, keeper: &mut Keeper<'_>, held: &Held, length_ms: u64) -> bool {
        let end = Instant::now() + Duration::from_millis(length_ms);
        // For most the server alone renews.
        let renews = self.random.random_ratio(1, 4);
        while Instant::now() < end {
            if !keeper.ping() {
                return false;
            }
            match self.random.random_range(0..12) {
                0 => self.write(held),
                // An own renewal leaves the keeping as it is.
                1 if renews => {
                    self.renew(&held.key, &held.owner, None, None, Some(held.token), None);
                }
                2 => self.pause(200),
                _ => self.pause(10),
            }
        }
        keeper.ping()
    }

    /// The connection was closed.
    fn lose(&mut self, keeper: Keeper<'_>, held: &Held) {
        let kept = keeper.close();
        self.kept.push(kept);
        self.write(held);
        let token = Some(held.token);
        let stands = self.renew(&held.key, &held.owner, None, None, token, None);
        let stands = matches!(stands, Outcome::Grant { .. });
        // Elsewhere connections are closed by other things too.
        if self.stage.habits.keeping.is_usual() && stands {
            let owner = &held.owner;
            let trouble = format!("{owner}: the connection was closed, and the grant stood");
            self.stage.run.trouble(trouble);
        } else if self.stage.habits.keeping.is_usual() {
            self.stage.run.count("closed when it was lost", 1);
        }
        self.clean_up(&held.key, &held.owner);
    }

    /// Another connection keeps the grant from now on, with the old one still open or not.
    fn move_on(&mut self, keeper: Keeper<'s>, held: &Held, takes_over: bool) {
        let mut before = None;
        if takes_over {
            before = Some(keeper);
        } else {
            let kept = keeper.close();
            self.kept.push(kept);
        }
        let action = Action::Renew {
            limit: None,
            lease: None,
            token: Some(held.token),
            raise: None,
        };
        let silence = self.silence();
        let next = self.ask_to_keep(&held.key, &held.owner, action, 0, silence);
        if let Some(mut before) = before {
            let is_half_open = before.is_half_open();
            if next.is_some() && !is_half_open && !before.ping() {
                self.stage.run.count("takeovers of a keeper", 1);
            }
            let kept = before.close();
            self.kept.push(kept);
        }
        let Some((mut next, _)) = next else {
            self.clean_up(&held.key, &held.owner);
            return;
        };
        let length = self.random.random_range(LENGTH) / 4;
        if self.stay(&mut next, held, length) || next.is_half_open() {
            self.release(&held.key, &held.owner, Down::All, None);
            let kept = next.close();
            self.kept.push(kept);
        } else {
            self.lose(next, held);
        }
    }
}
