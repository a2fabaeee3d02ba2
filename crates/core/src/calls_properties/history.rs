//! Histories of waiting calls.

use super::model::{Model, Operation};

/// The steps from the start of a server on.
#[derive(Clone, Debug)]
pub(super) struct History(pub(super) Vec<Step>);

/// An operation. A call is given as an index, modulo the number of such calls in the current state.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Operation(Operation),
    Disconnect(usize),
    Write(usize),
    Abandon(usize),
    Confirm(usize),
    Unsent(usize),
}

impl Step {
    /// The operation that this step is in this state; `None` when there is no such call.
    pub(super) fn at(&self, model: &Model) -> Option<Operation> {
        let waiting: Vec<_> = model.waiting().map(|call| call.number).collect();
        let pending: Vec<_> = model.pending().map(|call| call.number).collect();
        let unanswered: Vec<_> = model.unanswered().map(|call| call.number).collect();
        let sent: Vec<_> = model.sent().map(|call| call.number).collect();
        let (index, calls, operation): (_, _, fn(usize) -> Operation) = match self {
            Self::Operation(operation) => return Some(*operation),
            Self::Disconnect(index) => (index, waiting, Operation::Disconnect),
            Self::Write(index) => (index, pending, Operation::Write),
            Self::Abandon(index) => (index, unanswered, Operation::Abandon),
            Self::Confirm(index) => (index, sent, Operation::Confirm),
            Self::Unsent(index) => (index, sent, Operation::Unsent),
        };
        (!calls.is_empty()).then(|| operation(calls[index % calls.len()]))
    }
}
