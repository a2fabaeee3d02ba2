//! Is there an order of all calls on a lock, each at a moment between its sending and its end, in
//! which a lock would have replied as it did? (Linearizability.)

#[cfg(test)]
mod agreement;
mod deed;
mod lock;
mod search;
mod states;
mod times;
mod unknown;
mod world;

use crate::report::{Kind, Report, Violation};
use crate::story::Story;
use deed::{Deed, What, deeds};
use search::{Verdict, search};

/// How many calls before the one that nothing explains are told.
const CALLS_TOLD: usize = 8;

/// Looks for an order, and reports when there is none.
pub(crate) fn check(story: &Story<'_>, report: &mut Report) {
    let deeds = deeds(story);
    match search(&deeds, story) {
        Verdict::Explained => {}
        Verdict::Undecided => report.undecided.push(story.key.to_owned()),
        Verdict::NoOrder { stuck, states } => report.violations.push(Violation {
            kind: Kind::NoOrder,
            key: story.key.to_owned(),
            text: explain(&deeds, stuck, &states),
        }),
    }
}

/// The end of the shortest history that has no order: what ended last, what was under way, and what
/// the lock may have been before.
fn explain(deeds: &[Deed<'_>], stuck: usize, states: &[String]) -> String {
    let end = deeds[stuck].ended;
    let mut before: Vec<&Deed<'_>> = deeds
        .iter()
        .enumerate()
        .filter(|(index, deed)| {
            let told = !matches!(deed.what, What::GiveBack(_));
            told && *index != stuck && deed.sent <= end
        })
        .map(|(_, deed)| deed)
        .collect();
    before.sort_by_key(|deed| deed.ended);
    let ended = before.partition_point(|deed| deed.ended <= end);
    let (ended, under_way) = before.split_at(ended);
    let list = |deeds: &[&Deed<'_>]| {
        let texts: Vec<_> = deeds.iter().map(ToString::to_string).collect();
        if texts.is_empty() {
            "nothing".to_owned()
        } else {
            texts.join(", ")
        }
    };
    format!(
        "nothing explains {}; before it ended {}; under way were {}; the lock may have been {}",
        deeds[stuck],
        list(&ended[ended.len().saturating_sub(CALLS_TOLD)..]),
        list(&under_way[..under_way.len().min(CALLS_TOLD)]),
        states.join(" or ")
    )
}
