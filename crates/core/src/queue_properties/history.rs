//! Histories: what happens to calls that wait.

use super::model::{Deed, Model};

/// What happens to a server, from its start on.
#[derive(Clone, Debug)]
pub(super) struct History(pub(super) Vec<Step>);

/// A deed, before it is known which call it hits: one of those there are, counted round and round.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Deed(Deed),
    Gone(usize),
    Arrive(usize),
    Lose(usize),
}

impl Step {
    pub(super) fn at(&self, model: &Model) -> Option<Deed> {
        let waiting: Vec<_> = model.waiting().map(|call| call.number).collect();
        let flying: Vec<_> = model.flying().map(|call| call.number).collect();
        let (index, calls, deed): (_, _, fn(usize) -> Deed) = match self {
            Self::Deed(deed) => return Some(*deed),
            Self::Gone(index) => (index, waiting, Deed::Gone),
            Self::Arrive(index) => (index, flying, Deed::Arrive),
            Self::Lose(index) => (index, flying, Deed::Lose),
        };
        (!calls.is_empty()).then(|| deed(calls[index % calls.len()]))
    }
}
