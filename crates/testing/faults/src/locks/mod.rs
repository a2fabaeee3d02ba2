//! The workload `locks`: clients take locks, wait, renew, overstay and write to what the locks guard.

mod client;
mod configuration;
mod deployment;
mod fault;
mod line;
mod nemesis;
mod observer;
mod program;
mod protocol;
mod stage;

use crate::run::{Findings, Run, names, with_clients};
use crate::workload::{Configuration, Workload};
use client::{Client, Record};
use configuration::{Losses, Setup};
use history::{Acquire, Action, Call, History, Outcome, Refusal, Register};
use nemesis::LocksNemesis;
use program::Program;
use rand::SeedableRng;
use rand::rngs::StdRng;
use stage::{Programs, Stage};
use std::thread;

/// How many clients share a program.
const CLIENTS_A_PROGRAM: u32 = 4;
/// The number of the client that leaves locks and calls behind.
const LAST_CLIENT: u32 = 1_003;
/// Under which number the last look at each lock is recorded.
const LAST_LOOK: u32 = 1_001;

/// The counters that must rise in a configuration where clients hurry.
const HURRIED: [&str; 22] = [
    "refused: held",
    "timed out",
    "waits called off",
    "WRONGTYPE",
    "partial releases",
    "last releases",
    "refused releases",
    "renewals",
    "shares",
    "refused: not alone",
    "deadlocks",
    "closes while waiting",
    "expired",
    "comparisons",
    "ended sessions",
    "grants moved between sessions",
    "queued grants",
    "granted events",
    "ended events",
    "lost events",
    "taken events",
    "calls left behind",
];

/// The workload.
#[must_use]
pub fn workload() -> Workload {
    let [script, stale_script] = names(Register::Script);
    let [sql, stale_sql] = names(Register::Sql);
    let boxed = |setup| -> Box<dyn Configuration> { Box::new(setup) };
    Workload {
        columns: vec![
            ("operations", "operations"),
            ("grants", "grants"),
            ("hand-offs", "hand-offs"),
            ("lost", "lost grants"),
            ("script", script),
            ("stale", stale_script),
            ("SQL", sql),
            ("stale", stale_sql),
        ],
        configurations: configuration::all().into_iter().map(boxed).collect(),
    }
}

impl Configuration for Setup {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&self, seed: u64) -> Result<Findings, String> {
        let deployment = (self.start)(&mut StdRng::seed_from_u64(seed))?;
        let run = Run::new(seed, self.keys, self.length);
        let stage = Stage::new(run, self.habits, deployment);
        let mut history = play(&stage, self);
        last_look(&stage, &mut history);
        check_servers(&stage);
        stage.run.check_register(&stage.sql);
        for what in history.calls.iter().filter_map(event) {
            stage.run.count(what, 1);
        }
        stage.deployment.check(&stage.run, &history.calls);
        let run = stage.end(&mut history.facts);
        let report = run.check(&history, self.mode);
        if self.losses == Losses::Never {
            for loss in report.losses {
                run.trouble(format!("a grant was lost: {loss}"));
            }
        }
        Ok(run.into_findings())
    }

    fn wanted(&self) -> Vec<&'static str> {
        let [script, stale_script] = names(Register::Script);
        let [sql, stale_sql] = names(Register::Sql);
        let mut wanted = vec!["grants", "hand-offs", "re-entries"];
        wanted.extend([script, stale_script]);
        if self.habits.hurry {
            wanted.extend(HURRIED);
        } else {
            wanted.extend([sql, stale_sql]);
        }
        if !self.habits.wait {
            wanted.push("events of queued calls");
        }
        if self.habits.programs.is_usual() {
            wanted.push("promises");
        }
        match self.habits.programs {
            Programs::Few => {}
            Programs::Most => wanted.extend([
                "losses told by a session",
                "sessions polled on a new connection",
            ]),
            Programs::Freeze => wanted.extend([
                "frozen programs",
                "ended sessions",
                "held beyond a lease in a session",
            ]),
        }
        if self.losses == Losses::Must {
            wanted.push("lost grants");
        }
        wanted.extend(self.faults.iter().map(|fault| fault.name()));
        if self.evicts() {
            wanted.push("evicted keys");
        }
        wanted
    }
}

fn play(stage: &Stage, setup: &Setup) -> History {
    // Half of them come by the proxy, where connections are cut.
    let is_direct = |number: u32| !setup.cuts() || number.is_multiple_of(2);
    let count = setup.clients / CLIENTS_A_PROGRAM;
    let programs: Vec<_> = (0..count)
        .map(|number| Program::new(stage, number, is_direct(number)))
        .collect();
    let client = |number: u32| {
        let mut client = Client::new(stage, number, is_direct(number));
        let program = |number: u32| &programs[(number / 2 % count) as usize];
        client.run(program(number), program(number + 2));
        client.into_record()
    };
    let meanwhile = |_: &dyn Fn() -> bool| {
        thread::scope(|scope| {
            let observer = scope.spawn(|| observer::watch(stage));
            let mut history = LocksNemesis::new(stage).run(&setup.faults, setup.calm);
            let (seen, calls) = observer.join().expect("the observer");
            history.sightings.extend(seen);
            history.calls.extend(calls);
            history
        })
    };
    let (records, mut history) = thread::scope(|scope| {
        for program in &programs {
            for node in 0..stage.deployment.nodes().len() {
                scope.spawn(move || program.poll(node));
            }
        }
        let _ending = Ending(&programs);
        let (mut records, history) = with_clients(setup.clients, client, meanwhile);
        if setup.habits.hurry {
            let mut last = Client::new(stage, LAST_CLIENT, true);
            last.leave_behind(&programs);
            records.push(last.into_record());
        }
        (records, history)
    });
    history.polls = programs.into_iter().flat_map(Program::into_polls).collect();
    for record in records {
        history.calls.extend(record.calls);
        history.writes.extend(record.writes);
        history.renewed.extend(record.renewed);
    }
    history
}

/// Ends these programs, even when a client or a fault panics: they would poll forever.
struct Ending<'p, 's>(&'p [Program<'s>]);

impl Drop for Ending<'_, '_> {
    fn drop(&mut self) {
        self.0.iter().for_each(Program::end);
    }
}

/// The counter in the table for this call, if there is one.
fn event(call: &Call) -> Option<&'static str> {
    Some(match (&call.action, &call.outcome) {
        (_, Outcome::Refused(Refusal::NotAlone)) => "refused: not alone",
        (Action::Acquire(Acquire { block: true, .. }), Outcome::Nil) => "timed out",
        (Action::Acquire(_), Outcome::Nil) => "refused: held",
        (Action::Acquire(Acquire { limit: Some(_), .. }), Outcome::Grant(_)) => "shares",
        (Action::Renew(_), Outcome::Grant(_)) => "renewals",
        (Action::Release { .. }, Outcome::Left(0)) => "last releases",
        (Action::Release { .. }, Outcome::Left(_)) => "partial releases",
        (Action::Release { .. }, Outcome::Refused(_)) => "refused releases",
        _ => return None,
    })
}

/// Who holds what when all clients have ended: the history says whether anybody may.
fn last_look(stage: &Stage, history: &mut History) {
    let mut client = Client::new(stage, LAST_LOOK, true);
    for key in &stage.run.keys {
        client.look(key);
    }
    let Record { calls, .. } = client.into_record();
    for call in &calls {
        if call.outcome == Outcome::Untouched {
            let key = &call.key;
            stage
                .run
                .trouble(format!("{key} cannot be looked at in the end"));
        }
    }
    history.calls.extend(calls);
}

fn check_servers(stage: &Stage) {
    for node in 0..stage.deployment.nodes().len() {
        let check = &mut |server: &mut _| stage.run.check_log(server);
        stage.deployment.with_server(node, check);
    }
    for key in &stage.run.keys {
        let node = stage.deployment.home(key);
        let waiters = stage.deployment.nodes()[node].connect().and_then(|mut c| {
            let waiters = testbed::line(&format!("LOCK.WAITERS {key}"));
            waiters.query::<Vec<redis::Value>>(&mut c)
        });
        if waiters.is_ok_and(|waiters| !waiters.is_empty()) {
            stage
                .run
                .trouble(format!("calls wait for {key} whose clients are gone"));
        }
    }
}
