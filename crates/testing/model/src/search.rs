//! Runs the checker on one setting.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use crate::model::Quorum;
use crate::setting::Setting;
use crate::trace;

/// The result of a search.
pub(crate) struct Outcome {
    /// States that differ.
    pub(crate) states: usize,
    /// Steps that were taken, to new states and old.
    pub(crate) steps: usize,
    /// Steps of the longest of the shortest ways to a state.
    pub(crate) depth: usize,
    /// Is there no state left to look at?
    pub(crate) completed: bool,
    pub(crate) took: Duration,
    /// The violations, each with the steps that lead there.
    pub(crate) broken: Vec<(&'static str, Vec<String>)>,
    /// The expected cases that were found, with the steps.
    pub(crate) shown: Vec<(&'static str, Vec<String>)>,
    /// The expected cases that were not found.
    pub(crate) not_shown: Vec<&'static str>,
    /// The faults of the steps.
    pub(crate) faults: String,
}

/// Searches on `threads` for at most `limit`; until `breaks` is broken, where that is given.
pub(crate) fn search(
    setting: &Setting,
    rules: &'static [&'static str],
    breaks: Option<&'static str>,
    threads: usize,
    limit: Duration,
) -> Outcome {
    let model = Quorum::new(*setting, rules);
    let counts = Arc::clone(&model.counts);
    let properties = model.properties();
    let started = Instant::now();
    let mut checker = model.checker().threads(threads).timeout(limit);
    if let Some(rule) = breaks {
        checker = checker.finish_when(HasDiscoveries::AnyOf(BTreeSet::from([rule])));
    }
    let checker = checker.spawn_bfs().join();
    let took = started.elapsed();
    let discoveries = checker.discoveries();
    let (mut broken, mut shown, mut not_shown) = (Vec::new(), Vec::new(), Vec::new());
    for property in properties {
        let example = property.expectation == Expectation::Sometimes;
        let Some(path) = discoveries.get(property.name) else {
            if example {
                not_shown.push(property.name);
            }
            continue;
        };
        let told = trace::told(setting, &path.clone().into_states())
            .unwrap_or_else(|| vec![String::from("(no whole numbers were found for it)")]);
        let list = if example { &mut shown } else { &mut broken };
        list.push((property.name, told));
    }
    Outcome {
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        depth: checker.max_depth() - 1,
        completed: took < limit && breaks.is_none_or(|rule| !discoveries.contains_key(rule)),
        took,
        broken,
        shown,
        not_shown,
        faults: counts.to_string(),
    }
}
