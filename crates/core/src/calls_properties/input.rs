//! Histories from the bytes of a fuzzer: a few bytes for each step.

use arbitrary::{Arbitrary, Result, Unstructured};

use super::history::{History, Step};
use super::invariants::agree_with_a_list;
use super::model::{NAMES, OWNERS, Operation};

const MAX_STEPS: usize = 150;

/// Checks the history that these bytes stand for; panics when a property does not hold.
pub fn check(bytes: &[u8]) {
    if let Ok(history) = History::arbitrary(&mut Unstructured::new(bytes)) {
        agree_with_a_list(&history).unwrap_or_else(|failure| panic!("{failure}\n{history:#?}"));
    }
}

impl<'a> Arbitrary<'a> for History {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        let mut steps = Vec::new();
        while !bytes.is_empty() && steps.len() < MAX_STEPS {
            steps.push(step(bytes)?);
        }
        Ok(Self(steps))
    }
}

fn step(bytes: &mut Unstructured<'_>) -> Result<Step> {
    let kind = bytes.int_in_range(0..=31)?;
    let call = |bytes: &mut Unstructured<'_>| bytes.arbitrary::<u8>().map(usize::from);
    Ok(match kind {
        0..=1 => Step::Disconnect(call(bytes)?),
        2..=3 => Step::Write(call(bytes)?),
        4 => Step::Operation(Operation::Send),
        5 => Step::Confirm(call(bytes)?),
        6 => Step::Unsent(call(bytes)?),
        7 => Step::Abandon(call(bytes)?),
        _ => Step::Operation(operation(kind, bytes)?),
    })
}

fn operation(kind: u8, bytes: &mut Unstructured<'_>) -> Result<Operation> {
    Ok(match kind {
        8 => Operation::Swap,
        9 => Operation::Flush(bytes.int_in_range(0..=1)?),
        10 => Operation::Raise(*bytes.choose(&NAMES)?),
        11..=12 => Operation::Del(*bytes.choose(&NAMES)?),
        13..=15 => Operation::Pass(bytes.int_in_range(1..=15)?),
        16..=18 => Operation::Tick,
        19..=22 => Operation::Release {
            name: *bytes.choose(&NAMES)?,
            owner: bytes.choose_index(OWNERS.len())?,
            all: bytes.arbitrary()?,
        },
        _ => Operation::Acquire {
            name: *bytes.choose(&NAMES)?,
            owner: bytes.choose_index(OWNERS.len())?,
            holds: *bytes.choose(&[None, None, Some(1), Some(1), Some(2), Some(3)])?,
            block: match bytes.int_in_range(0..=2)? {
                0 => None,
                1 => Some(0),
                _ => Some(bytes.int_in_range(1..=60)?),
            },
        },
    })
}
