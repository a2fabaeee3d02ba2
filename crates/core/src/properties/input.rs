//! Histories from the bytes of a fuzzer. The kind of a step takes a byte or two, so that a change of
//! one byte changes little.

use arbitrary::{Arbitrary, Result, Unstructured};

use super::history::{HOUR, History, KEYS, MAX_TOKEN, NearToken, NearVerb, Step, TODAY};
use super::invariants::{
    agree_with_the_model, are_repeatable, keep_the_invariants, leave_later_grants_alone,
};
use super::model::{Event, Lock, MAX_HOLDS, Server, Settings, TOKENS_END};
use super::system::OWNERS;
use crate::Lease;

const MAX_STEPS: usize = 100;
const TEN_YEARS: i64 = Lease::MAX.millis().cast_signed() * 1_000;

/// Checks the history that these bytes stand for; panics when a property does not hold.
pub fn check(bytes: &[u8]) {
    let Ok(history) = History::arbitrary(&mut Unstructured::new(bytes)) else {
        return;
    };
    for property in [
        agree_with_the_model,
        keep_the_invariants,
        are_repeatable,
        leave_later_grants_alone,
    ] {
        property(&history).unwrap_or_else(|failure| panic!("{failure}\n{history:#?}"));
    }
}

impl<'a> Arbitrary<'a> for History {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        let start = start(bytes)?;
        let mut steps = Vec::new();
        while !bytes.is_empty() && steps.len() < MAX_STEPS {
            steps.push(step(bytes)?);
        }
        Ok(Self::new(start, steps))
    }
}

fn start(bytes: &mut Unstructured<'_>) -> Result<Server> {
    let now = match bytes.int_in_range(0..=7)? {
        0 => 0,
        1 => TOKENS_END - 5,
        2 => bytes.int_in_range(0..=2 * TOKENS_END)?,
        _ => TODAY,
    };
    let seen = match bytes.int_in_range(0..=7)? {
        0 => near_max_token(bytes)?,
        1..=3 => now.saturating_add_signed(bytes.int_in_range(-HOUR..=HOUR)?),
        _ => 0,
    };
    let settings = Settings {
        default_lease: lease(bytes)?,
        max_lead: *bytes.choose(&[0, 5_000, 86_400_000])?,
    };
    let mut locks = Vec::new();
    for _ in 0..KEYS {
        locks.push(if bytes.arbitrary()? {
            Some(start_lock(bytes)?)
        } else {
            None
        });
    }
    Ok(Server {
        locks,
        seen,
        now,
        settings,
    })
}

fn start_lock(bytes: &mut Unstructured<'_>) -> Result<Lock> {
    Ok(Lock {
        owner: bytes.choose_index(OWNERS.len())?,
        token: bytes.int_in_range(0..=5_000_000)?,
        holds: match bytes.int_in_range(0..=2)? {
            0 => bytes.int_in_range(MAX_HOLDS - 2..=MAX_HOLDS)?,
            _ => bytes.int_in_range(1..=4)?,
        },
        lease: lease(bytes)?,
        deadline: optional(bytes, |bytes| bytes.int_in_range(0..=40_000))?,
    })
}

fn step(bytes: &mut Unstructured<'_>) -> Result<Step> {
    let key = bytes.choose_index(KEYS)?;
    Ok(match bytes.int_in_range(0..=15)? {
        0 => Step::Clock(bytes.int_in_range(0..=3_000)?),
        1 => Step::Clock(bytes.int_in_range(0..=40_000_000)?),
        2 => Step::Clock(bytes.int_in_range(-TEN_YEARS..=TEN_YEARS)?),
        3 => Step::Deadline(key, bytes.int_in_range(-1..=1)?),
        4 => Step::Event(Event::Pexpire(key, lease(bytes)?)),
        5 => Step::Event(match bytes.int_in_range(0..=3)? {
            0 => Event::Del(key),
            1 => Event::Clock(bytes.int_in_range(0..=2 * TOKENS_END)?),
            _ => Event::Persist(key),
        }),
        6 => Step::Seen(token(bytes)?),
        _ => Step::Call {
            key,
            owner: optional(bytes, |bytes| bytes.choose_index(OWNERS.len()))?,
            token: optional(bytes, token)?,
            verb: verb(bytes)?,
        },
    })
}

fn verb(bytes: &mut Unstructured<'_>) -> Result<NearVerb> {
    Ok(match bytes.int_in_range(0..=11)? {
        0..=4 => NearVerb::Acquire(
            optional(bytes, lease)?,
            optional(bytes, |bytes| bytes.int_in_range(-2..=2))?,
        ),
        5..=6 => NearVerb::Release(optional(bytes, |bytes| bytes.int_in_range(-3..=1))?),
        7 => NearVerb::ReleaseAll,
        8 => NearVerb::Fence,
        _ => NearVerb::Renew(optional(bytes, lease)?, optional(bytes, token)?),
    })
}

fn token(bytes: &mut Unstructured<'_>) -> Result<NearToken> {
    Ok(match bytes.int_in_range(0..=7)? {
        0 => NearToken::Exactly(bytes.int_in_range(1..=MAX_TOKEN)?),
        1 => NearToken::Exactly(near_max_token(bytes)?),
        2 => NearToken::Lead(bytes.int_in_range(-HOUR..=HOUR)?),
        3 => NearToken::Lead(bytes.int_in_range(-1..=1)?),
        4 => NearToken::Seen(bytes.int_in_range(-2..=3)?),
        5 => NearToken::Grant(bytes.int_in_range(-2..=3)?),
        _ => NearToken::Grant(0),
    })
}

fn lease(bytes: &mut Unstructured<'_>) -> Result<u64> {
    let longest = Lease::MAX.millis();
    match bytes.int_in_range(0..=7)? {
        0 => Ok(1),
        1 => Ok(longest),
        2 => bytes.int_in_range(1..=longest),
        _ => bytes.int_in_range(1..=60_000),
    }
}

fn near_max_token(bytes: &mut Unstructured<'_>) -> Result<u64> {
    bytes.int_in_range(MAX_TOKEN - 4..=MAX_TOKEN)
}

fn optional<'a, T>(
    bytes: &mut Unstructured<'a>,
    value: impl FnOnce(&mut Unstructured<'a>) -> Result<T>,
) -> Result<Option<T>> {
    if bytes.arbitrary()? {
        value(bytes).map(Some)
    } else {
        Ok(None)
    }
}
