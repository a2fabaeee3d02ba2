//! Processes that keep a lock and stand still (`SIGSTOP`): for a short while, through which the server keeps the
//! lock for them, and for too long, when somebody else gets it a lease later.

use super::Client;
use super::keep::{KEEPERS, SHORT_SILENCE, TOO_QUIET, ended};
use crate::clock;
use crate::locks::keeper::{Event, Orders, Process};
use history::{Action, Down, Kept, Outcome};
use std::thread::sleep;
use std::time::{Duration, Instant};

const KEY: &str = "stopped";
const LEASE: u64 = 1_000;
/// Longer than the lease and shorter than the silence.
const SHORT: Duration = Duration::from_millis(1_400);
/// How long the process works before and after that.
const WORK: Duration = Duration::from_millis(300);
/// How long a process may take to start or to end on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

impl Client<'_> {
    /// Has one process after the other keep a lock and be stopped, until the run is over.
    pub(crate) fn stop_keepers(&mut self) {
        while !self.stage.run.is_over() {
            self.tasks += 1;
            self.stop_a_keeper();
        }
    }

    fn stop_a_keeper(&mut self) {
        let stage = self.stage;
        let owner = self.owner();
        let stalled = stage.stalled();
        let process = Process::start(&Orders {
            client: self.number + KEEPERS,
            origin: stage.run.origin(),
            port: stage.deployment.nodes()[stage.deployment.home(KEY)].port(),
            key: KEY.to_owned(),
            owner: owner.clone(),
            lease_ms: LEASE,
            silence_ms: SHORT_SILENCE,
        });
        let Ok(Event::Asked(call)) = process.events.recv_timeout(PATIENCE) else {
            stage.run.trouble("a keeper's process does not start");
            return;
        };
        let Outcome::Grant { token, .. } = call.outcome else {
            stage.run.trouble(format!("{call}: nobody else had it"));
            return;
        };
        let mut kept = Kept {
            key: KEY.to_owned(),
            owner: owner.clone(),
            token: Some(token),
            asked: call.sent,
            since: call.ended,
            heard: None,
            until: call.ended,
        };
        self.calls.push(call);
        sleep(WORK);
        process.while_stopped(|| sleep(SHORT));
        let went_on = stage.run.now();
        sleep(WORK);
        let taken = process.while_stopped(|| self.take_from_a_stopped_keeper());
        self.listen(&process, &mut kept);
        if kept.heard.is_some_and(|heard| heard >= went_on) {
            stage.run.count("kept through a short SIGSTOP", 1);
        } else if stage.stalled() == stalled {
            let trouble = "a connection was closed that had not been silent for too long";
            stage.run.trouble(trouble);
        }
        self.kept.push(ended(kept, stage));
        if taken {
            self.release(KEY, &taker(&owner), Down::All, None);
        }
    }

    /// Waits for its lock: it must come when the silence is over, its end is noticed, and a lease has passed.
    fn take_from_a_stopped_keeper(&mut self) -> bool {
        let stage = self.stage;
        let action = Action::Acquire {
            limit: None,
            lease: Some(60_000),
            block: true,
            holds: None,
            token: None,
        };
        let (began, stalled) = (Instant::now(), stage.stalled());
        let wait = PATIENCE + PATIENCE;
        let outcome = self.ask(KEY, &taker(&self.owner()), action, clock::millis(wait));
        let taken = matches!(outcome, Outcome::Grant { .. });
        let most = Duration::from_millis(TOO_QUIET + LEASE) + stage.stalled_since(stalled);
        if !taken || began.elapsed() > most {
            let trouble = "a lock was not free a lease after its keeper's silence";
            stage.run.trouble(trouble);
        } else {
            stage.run.count("taken from a stopped keeper", 1);
        }
        taken
    }

    /// Takes what the process tells until its connection is closed, which must be soon.
    fn listen(&self, process: &Process, kept: &mut Kept) {
        loop {
            match process.events.recv_timeout(PATIENCE) {
                Ok(Event::Heard(sent)) => kept.heard = Some(sent),
                Ok(Event::Closed) => break,
                _ => {
                    let trouble = "the connection of a stopped keeper is open";
                    self.stage.run.trouble(trouble);
                    break;
                }
            }
        }
    }
}

fn taker(owner: &str) -> String {
    format!("{owner}:taker")
}
