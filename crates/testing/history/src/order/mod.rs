//! Is there an order of all calls on a lock, each at a moment between its sending and its end, in
//! which a lock would have replied as it did? (Linearizability.)

#[cfg(test)]
mod agreement;
mod candidate;
mod lock;
mod lock_state;
mod operation;
mod search;
mod states;
mod times;
mod unknown;

use crate::report::{Kind, Report, Violation};
use crate::story::Story;
use operation::{Operation, What, operations};
use search::{Verdict, search};

/// How many calls before the one that nothing explains are told.
const CALLS_TOLD: usize = 8;

/// Looks for an order, and reports when there is none.
pub(crate) fn check(story: &Story<'_>, report: &mut Report) {
    let operations = operations(story);
    match search(&operations, story) {
        Verdict::Explained => {}
        Verdict::Undecided => report.undecided.push(story.key.to_owned()),
        Verdict::NoOrder { stuck, states } => report.violations.push(Violation {
            kind: Kind::NoOrder,
            key: story.key.to_owned(),
            text: explain(&operations, stuck, &states),
        }),
    }
}

/// The end of the shortest history that has no order: what ended last, what was under way, and what
/// the lock may have been before.
fn explain(operations: &[Operation<'_>], stuck: usize, states: &[String]) -> String {
    let end = operations[stuck].ended;
    let mut before: Vec<&Operation<'_>> = operations
        .iter()
        .enumerate()
        .filter(|(index, operation)| {
            let told = !matches!(operation.what, What::GiveBack(_));
            told && *index != stuck && operation.sent <= end
        })
        .map(|(_, operation)| operation)
        .collect();
    before.sort_by_key(|operation| operation.ended);
    let ended = before.partition_point(|operation| operation.ended <= end);
    let (ended, under_way) = before.split_at(ended);
    let list = |operations: &[&Operation<'_>]| {
        let texts: Vec<_> = operations.iter().map(ToString::to_string).collect();
        if texts.is_empty() {
            "nothing".to_owned()
        } else {
            texts.join(", ")
        }
    };
    format!(
        "nothing explains {}; before it ended {}; under way were {}; the lock may have been {}",
        operations[stuck],
        list(&ended[ended.len().saturating_sub(CALLS_TOLD)..]),
        list(&under_way[..under_way.len().min(CALLS_TOLD)]),
        states.join(" or ")
    )
}
