//! The grants of one lock that somebody was told of.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::story::{Story, granted};
use crate::{Action, Call, Outcome};

/// A grant, under all of its tokens: a raise gives it another one.
pub(crate) struct Grant<'a> {
    pub(crate) owner: &'a str,
    pub(crate) tokens: BTreeSet<u64>,
    /// The calls whose replies show that it stood at a moment between their sending and their end,
    /// by the moment they were sent.
    pub(crate) shown: Vec<&'a Call>,
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
            if let Outcome::Grant { token, owner, .. } = &call.outcome {
                let grant = by_first.entry(first(*token)).or_insert_with(|| Grant {
                    owner,
                    tokens: BTreeSet::new(),
                    shown: Vec::new(),
                });
                grant.tokens.insert(*token);
            }
        }
        for call in &story.calls {
            if let Some(token) = shown(call)
                && let Some(grant) = by_first.get_mut(&first(token))
                && grant.tokens.contains(&token)
            {
                grant.shown.push(call);
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
            .filter(|call| {
                matches!(call.action, Action::Acquire { .. })
                    && matches!(call.outcome, Outcome::Lost | Outcome::GivenBack)
            })
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

    /// Whether it is certain that the grant began with this call.
    pub(crate) fn began_with(&self, call: &Call) -> bool {
        let (
            Action::Acquire {
                holds, token: None, ..
            },
            Outcome::Grant {
                token, holds: 1, ..
            },
        ) = (&call.action, &call.outcome)
        else {
            return false;
        };
        // Without HOLDS, a re-entry has two holds at least. With it, one is all there may be.
        holds.is_none()
            || (self.index(*token).is_some_and(|index| {
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
    /// The acquires that were answered with it.
    pub(crate) fn acquires(&self) -> impl Iterator<Item = &Call> {
        let calls = self.shown.iter().copied();
        calls
            .filter(|call| matches!(call.action, Action::Acquire { .. }) && granted(call).is_some())
    }
}

/// The token of the grant that certainly stood when the server ran this call.
pub(crate) fn shown(call: &Call) -> Option<u64> {
    match (&call.action, &call.outcome) {
        (_, Outcome::Grant { token, .. }) | (Action::Fence(token), Outcome::Done) => Some(*token),
        (Action::Release { token, .. }, Outcome::Left(_)) => *token,
        _ => None,
    }
}

/// For each token that a grant was raised to, or may have been, the one that it had first.
fn raised(story: &Story<'_>) -> HashMap<u64, u64> {
    let mut owners: HashMap<u64, &str> = HashMap::new();
    for call in &story.calls {
        if let Outcome::Grant { token, owner, .. } = &call.outcome {
            owners.entry(*token).or_insert(owner);
        }
    }
    let mut raises: Vec<(u64, u64)> = Vec::new();
    for call in &story.calls {
        if let Action::Renew {
            token: Some(from),
            raise: Some(to),
            ..
        } = call.action
            && matches!(call.outcome, Outcome::Grant { .. } | Outcome::Lost)
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
