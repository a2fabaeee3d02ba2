//! One round: servers come up, clients work while things are done to them, and what they wrote down
//! is checked.

use crate::administrator::Administrator;
use crate::client::Client;
use crate::configuration::{Configuration, Losses};
use crate::observer;
use crate::stage::Stage;
use history::{History, Outcome, Report};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::thread;

const CLIENTS: u32 = 8;
const KEYS: usize = 4;
/// Under which number the last look at each lock is written down.
const LAST_LOOK: u32 = 1_001;

/// What a round came to.
pub(crate) struct Outcomes {
    pub(crate) report: Report,
    pub(crate) faults: BTreeMap<&'static str, u64>,
    /// What is wrong besides the history.
    troubles: Vec<String>,
}

impl Outcomes {
    /// Everything that is wrong.
    pub(crate) fn wrongs(&self) -> Vec<String> {
        let violations = self.report.violations.iter().map(ToString::to_string);
        let undecided = self.report.undecided.iter();
        violations
            .chain(undecided.map(|key| format!("{key}: too much to search")))
            .chain(self.troubles.iter().cloned())
            .collect()
    }
}

/// Runs one; the reason where the configuration cannot be had here.
pub(crate) fn run(configuration: &Configuration, seed: u64) -> Result<Outcomes, String> {
    let deployment = (configuration.start)(&mut StdRng::seed_from_u64(seed))?;
    let stage = Stage::new(
        seed,
        configuration.habits,
        (0..KEYS).map(|number| format!("lock-{number}")).collect(),
        deployment,
        configuration.length,
    );
    let mut history = play(&stage, configuration);
    last_look(&stage, &mut history);
    check_servers(&stage);
    if let Some(name) = stage.sql.first_fall() {
        stage.trouble(format!("the SQL register of {name} went back"));
    }
    let (faults, mut troubles, facts) = stage.into_notes();
    history.facts = facts;
    let report = history::check(&history, configuration.mode);
    if configuration.losses == Losses::Never {
        let losses = report.losses.iter();
        troubles.extend(losses.map(|loss| format!("a grant was lost: {loss}")));
    }
    Ok(Outcomes {
        report,
        faults,
        troubles,
    })
}

fn play(stage: &Stage, configuration: &Configuration) -> History {
    let mut history = History::default();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                scope.spawn(move || {
                    // Half of them come by the proxy, where connections are cut.
                    let is_direct = !configuration.cuts() || number % 2 == 0;
                    let mut client = Client::new(stage, number, is_direct);
                    client.run();
                    client.into_record()
                })
            })
            .collect();
        let observer = scope.spawn(|| observer::watch(stage));
        (history.calls, history.sightings) =
            Administrator::new(stage, configuration.calm).run(&configuration.faults);
        history
            .sightings
            .extend(observer.join().expect("the observer"));
        for client in clients {
            let (calls, writes) = client.join().expect("a client");
            history.calls.extend(calls);
            history.writes.extend(writes);
        }
    });
    history
}

/// Who holds what when all clients have gone home: the history says whether anybody may.
fn last_look(stage: &Stage, history: &mut History) {
    let mut client = Client::new(stage, LAST_LOOK, true);
    for key in &stage.keys {
        client.look(key);
    }
    let (calls, _) = client.into_record();
    for call in &calls {
        if call.outcome == Outcome::Untouched {
            stage.trouble(format!("{} cannot be looked at in the end", call.key));
        }
    }
    history.calls.extend(calls);
}

fn check_servers(stage: &Stage) {
    for node in 0..stage.deployment.nodes().len() {
        stage.deployment.with_server(node, &mut |server| {
            for sign in server.signs_of_a_fault() {
                stage.trouble(format!("{sign} in the log of port {}", server.port()));
            }
        });
    }
    for key in &stage.keys {
        let node = stage.deployment.home(key);
        let waiters = stage.deployment.nodes()[node].connect().and_then(|mut c| {
            redis::cmd("LOCK.WAITERS")
                .arg(key)
                .query::<Vec<redis::Value>>(&mut c)
        });
        if waiters.is_ok_and(|waiters| !waiters.is_empty()) {
            stage.trouble(format!("calls wait for {key} whose clients are gone"));
        }
    }
}
