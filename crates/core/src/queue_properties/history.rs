//! Histories: what happens to calls that wait.

use super::model::{Model, Operation};

/// What happens to a server, from its start on.
#[derive(Clone, Debug)]
pub(super) struct History(pub(super) Vec<Step>);

/// An operation, before it is known which call it hits: an index, modulo the calls there are.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Operation(Operation),
    Disconnect(usize),
    Deliver(usize),
    Abandon(usize),
}

impl Step {
    pub(super) fn at(&self, model: &Model) -> Option<Operation> {
        let waiting: Vec<_> = model.waiting().map(|call| call.number).collect();
        let pending: Vec<_> = model.pending().map(|call| call.number).collect();
        let (index, calls, operation): (_, _, fn(usize) -> Operation) = match self {
            Self::Operation(operation) => return Some(*operation),
            Self::Disconnect(index) => (index, waiting, Operation::Disconnect),
            Self::Deliver(index) => (index, pending, Operation::Deliver),
            Self::Abandon(index) => (index, pending, Operation::Abandon),
        };
        (!calls.is_empty()).then(|| operation(calls[index % calls.len()]))
    }
}
