//! The model as the checker wants it.

use std::sync::Arc;

use stateright::{Expectation, Model, Property};

use crate::action::{Action, possible};
use crate::canonical::{canonical, highest_rank};
use crate::counts::Counts;
use crate::setting::{Leases, Network, Setting};
use crate::state::{State, seen};
use crate::step::step;

/// Names of what must always be so.
pub(crate) mod rule {
    pub(crate) const HIGHER: &str = "who begins after another returned has the higher token";
    pub(crate) const OWN_TOKEN: &str = "no two return with one token";
    pub(crate) const REGISTER: &str = "the register takes an undisturbed holder's writes";
    pub(crate) const NO_OVERLAP: &str = "no two hold at once";
    pub(crate) const PROGRESS: &str = "it does not end before somebody has got the lock";
}

/// Names of what must be found possible.
pub(crate) mod example {
    pub(crate) const LOCKED: &str = "somebody gets the lock";
    pub(crate) const LOWER_LATER: &str = "overlapping attempts return in falling order of tokens";
    pub(crate) const STALE_REFUSED: &str = "the register refuses a former holder";
}

pub(crate) struct Quorum {
    pub(crate) setting: Setting,
    /// The invariants; if there are none, all that the setting can judge.
    pub(crate) rules: &'static [&'static str],
    pub(crate) counts: Arc<Counts>,
}

impl Quorum {
    pub(crate) fn new(setting: Setting, rules: &'static [&'static str]) -> Self {
        Self {
            setting,
            rules,
            counts: Arc::default(),
        }
    }

    /// A state in which there is room between all tokens for new ones, and where room ends.
    fn with_room(state: &State) -> (State, u8) {
        let mut roomy = state.clone();
        roomy.map_tokens(|token| 2 * token);
        (roomy, 2 * highest_rank(state) + 1)
    }
}

impl Model for Quorum {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::default()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let (roomy, latest) = Self::with_room(state);
        possible(&self.setting, &roomy, latest, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let (roomy, _) = Self::with_room(state);
        self.counts.count(&roomy, action);
        let next = canonical(&self.setting, step(&self.setting, &roomy, action));
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let register = self.setting.register;
        let trusted = self.setting.leases == Leases::AfterTrust;
        let reliable = self.setting.network == Network::Reliable;
        // Where all messages are taken one by one, and not only what leads to the most trouble.
        let overtaking = self.setting.unheard.is_none()
            && self.setting.clients > 1
            && !trusted
            && !reliable
            && self.setting.weakening.is_none();
        let mut all = vec![
            never::<{ seen::NOT_HIGHER }>(rule::HIGHER),
            sometimes::<{ seen::LOCKED }>(example::LOCKED),
        ];
        if overtaking {
            all.push(sometimes::<{ seen::LOWER_LATER }>(example::LOWER_LATER));
        }
        if trusted {
            all.push(never::<{ seen::OVERLAP }>(rule::NO_OVERLAP));
        }
        if register {
            all.push(never::<{ seen::SAME_TOKEN }>(rule::OWN_TOKEN));
            all.push(never::<{ seen::HOLDER_REFUSED }>(rule::REGISTER));
            all.push(sometimes::<{ seen::STALE_REFUSED }>(example::STALE_REFUSED));
        }
        if reliable {
            all.push(Property::always(
                rule::PROGRESS,
                |model: &Self, state: &State| {
                    let mut actions = Vec::new();
                    model.actions(state, &mut actions);
                    !actions.is_empty() || state.highest > 0
                },
            ));
        }
        all.retain(|property| {
            property.expectation == Expectation::Sometimes
                || self.rules.is_empty()
                || self.rules.contains(&property.name)
        });
        all
    }
}

/// That this is not seen in any state.
fn never<const SEEN: u8>(name: &'static str) -> Property<Quorum> {
    Property::always(name, |_, state: &State| state.seen & SEEN == 0)
}

/// That it is, in some.
fn sometimes<const SEEN: u8>(name: &'static str) -> Property<Quorum> {
    Property::sometimes(name, |_, state: &State| state.seen & SEEN != 0)
}
