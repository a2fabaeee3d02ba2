//! The grants of one lock that somebody was told of.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::story::{Story, granted};
use crate::{Acquire, Action, Call, Granted, Limit, Outcome, Renew};

/// A grant, under all of its tokens: a raise gives it another one.
pub(crate) struct Grant<'a> {
    pub(crate) owner: &'a str,
    pub(crate) tokens: BTreeSet<u64>,
    /// The calls whose replies show that it stood at a moment between their sending and their end,
    /// by the moment they were sent.
    pub(crate) shown: Vec<&'a Call>,
    /// The most that it can have borne at any time.
    pub(crate) limit: Limit,
}

/// All grants of one lock, by token.
pub(crate) struct Grants<'a> {
    all: Vec<Grant<'a>>,
    by_token: HashMap<u64, usize>,
    /// For calls whose effect is unknown: who may have acquired without having been told.
    silent: Vec<&'a Call>,
}

impl<'a> Grants<'a> {
    pub(crate) fn of(story: &Story<'a>) -> Self {
        let mut by_first: BTreeMap<u64, Grant<'a>> = BTreeMap::new();
        let raised = raised(story);
        let first = |token: u64| raised.get(&token).copied().unwrap_or(token);
        for call in &story.calls {
            for (token, owner) in told(call) {
                let grant = by_first.entry(first(token)).or_insert_with(|| Grant {
                    owner,
                    tokens: BTreeSet::new(),
                    shown: Vec::new(),
                    limit: Limit::ONE,
                });
                grant.tokens.insert(token);
            }
        }
        let silent = silent_limits(story);
        for call in &story.calls {
            for (token, limit) in shown_with_limit(call) {
                if let Some(grant) = by_first.get_mut(&first(token))
                    && grant.tokens.contains(&token)
                {
                    let silent = silent.get(grant.owner).copied();
                    grant.limit = grant.limit.max(limit).max(silent.unwrap_or(Limit::ONE));
                    grant.shown.push(call);
                }
            }
        }
        let all: Vec<_> = by_first.into_values().collect();
        let by_token = all
            .iter()
            .enumerate()
            .flat_map(|(index, grant)| grant.tokens.iter().map(move |token| (*token, index)))
            .collect();
        let silent = story
            .calls
            .iter()
            .copied()
            .filter(|call| matches!(call.action, Action::Acquire(_)) && call.is_unanswered())
            .collect();
        Self {
            all,
            by_token,
            silent,
        }
    }

    /// In the order of their tokens.
    pub(crate) fn all(&self) -> &[Grant<'a>] {
        &self.all
    }

    /// Which of [`Self::all`] has this token.
    pub(crate) fn index(&self, token: u64) -> Option<usize> {
        self.by_token.get(&token).copied()
    }

    /// Whether a call, bound to a token perhaps, can have met this grant.
    pub(crate) fn can_meet(&self, token: Option<u64>, index: usize) -> bool {
        token
            .and_then(|token| self.index(token))
            .is_none_or(|other| other == index)
    }

    /// Whether the grants with these tokens certainly never stood together, as far as nothing was lost.
    pub(crate) fn exclude_each_other(&self, one: u64, other: u64) -> bool {
        let can_share = |token| {
            self.index(token)
                .is_some_and(|index| self.all[index].can_share())
        };
        !(can_share(one) && can_share(other))
    }

    /// Whether it is certain that the grant began with this call.
    pub(crate) fn began_with(&self, call: &Call) -> bool {
        let (Action::Acquire(asks), Some(told)) = (&call.action, call.granted()) else {
            return false;
        };
        if asks.token.is_some() || told.holds != 1 {
            return false;
        }
        // Without HOLDS, a re-entry has two holds at least. With it, one is all there may be.
        asks.holds.is_none()
            || (self.index(told.token).is_some_and(|index| {
                let others = |other: &&&Call| !std::ptr::eq(**other, call);
                let mut others = self.all[index].shown.iter().filter(others);
                others.all(|other| other.sent > call.ended)
            }) && !self
                .silent
                .iter()
                .any(|silent| silent.owner == call.owner && silent.sent < call.ended))
    }
}

impl Grant<'_> {
    /// Whether it can have stood together with others.
    pub(crate) fn can_share(&self) -> bool {
        self.limit > Limit::ONE
    }

    /// The acquires that were answered with it.
    pub(crate) fn acquires(&self) -> impl Iterator<Item = &Call> {
        let calls = self.shown.iter().copied();
        calls.filter(|call| matches!(call.action, Action::Acquire(_)) && granted(call).is_some())
    }
}

/// The tokens of the grants that certainly stood when the server ran this call.
pub(crate) fn shown(call: &Call) -> impl Iterator<Item = u64> {
    shown_with_limit(call).map(|(token, _)| token)
}

/// The same, each with the most that the call tells or asks that the grant allows.
fn shown_with_limit(call: &Call) -> impl Iterator<Item = (u64, Limit)> {
    let one = match (&call.action, &call.outcome) {
        (_, Outcome::Grant(Granted { token, .. })) | (Action::Fence(token), Outcome::Done) => {
            Some(*token)
        }
        (Action::Release { token, .. }, Outcome::Left(_)) => *token,
        _ => None,
    };
    let listed = match &call.outcome {
        Outcome::Holders(holders) => holders.as_slice(),
        _ => &[],
    };
    let one = one.map(|token| (token, asked_limit(call)));
    let listed = listed.iter().map(|holder| (holder.token, holder.limit));
    one.into_iter().chain(listed)
}

/// The tokens that a reply told of, and whose they are.
pub(crate) fn told(call: &Call) -> impl Iterator<Item = (u64, &str)> {
    let (one, listed) = match &call.outcome {
        Outcome::Grant(Granted { token, owner, .. }) => {
            (Some((*token, owner.as_str())), [].as_slice())
        }
        Outcome::Holders(holders) => (None, holders.as_slice()),
        _ => (None, [].as_slice()),
    };
    let listed = listed
        .iter()
        .map(|holder| (holder.token, holder.owner.as_str()));
    one.into_iter().chain(listed)
}

fn asked_limit(call: &Call) -> Limit {
    match call.action {
        Action::Acquire(Acquire { limit, .. }) | Action::Renew(Renew { limit, .. }) => {
            limit.unwrap_or(Limit::ONE)
        }
        _ => Limit::ONE,
    }
}

/// The widest limit that each owner asked for without an answer.
fn silent_limits<'a>(story: &Story<'a>) -> HashMap<&'a str, Limit> {
    let mut limits = HashMap::new();
    for call in &story.calls {
        if call.is_unanswered() {
            let limit = limits.entry(call.owner.as_str()).or_insert(Limit::ONE);
            *limit = asked_limit(call).max(*limit);
        }
    }
    limits
}

/// For each token that a grant was raised to, or may have been, the one that it had first.
fn raised(story: &Story<'_>) -> HashMap<u64, u64> {
    let mut owners: HashMap<u64, &str> = HashMap::new();
    for call in &story.calls {
        for (token, owner) in told(call) {
            owners.entry(token).or_insert(owner);
        }
    }
    let mut raises: Vec<(u64, u64)> = Vec::new();
    for call in &story.calls {
        if let Action::Renew(asks) = call.action
            && let (Some(from), Some(to)) = (asks.token, asks.raise)
            && matches!(call.outcome, Outcome::Grant(_) | Outcome::Lost)
            && from < to
            && owners.get(&to).is_some_and(|owner| **owner == *call.owner)
        {
            raises.push((from, to));
        }
    }
    raises.sort_unstable();
    let mut first = HashMap::new();
    for (from, to) in raises {
        let from = first.get(&from).copied().unwrap_or(from);
        first.entry(to).or_insert(from);
    }
    first
}
