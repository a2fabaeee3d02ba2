//! Stored locks and effects: any fields and any bytes are refused or make a valid lock.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use redis_lock_core::{EffectBuffer, EffectError, Fields, Held, Record, RecordBuffer};

/// The fields of an RDB record.
#[derive(Arbitrary, Debug)]
struct Stored<'a> {
    token: Number,
    holds: Number,
    lease_ms: Number,
    owner: &'a [u8],
}

/// Any number, or one at this distance from the end of a range.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Number {
    Any(u64),
    Short(u8),
    Token(i8),
    Holds(i8),
    Lease(i8),
    NarrowLease(i8),
}

const TOKENS_END: u64 = 1 << 53;
const HOLDS_END: u64 = 1 << 31;
const MAX_LEASE_MS: u64 = 315_360_000_000;
const MAX_OWNER: usize = 256;
/// What the version has besides where nobody is told of the change.
const QUIET: u8 = 128;
/// The most bytes of a record without its owner.
const MAX_HEAD: usize = 16;

impl Number {
    fn value(self) -> u64 {
        let near = |end: u64, by: i8| end.wrapping_add_signed(by.into());
        match self {
            Self::Any(number) => number,
            Self::Short(number) => number.into(),
            Self::Token(by) => near(TOKENS_END, by),
            Self::Holds(by) => near(HOLDS_END, by),
            Self::Lease(by) => near(MAX_LEASE_MS, by),
            Self::NarrowLease(by) => near(1 << 24, by),
        }
    }
}

fuzz_target!(|input: (Stored, &[u8])| {
    let (stored, bytes) = input;
    let fields = Fields {
        token: stored.token.value(),
        holds: stored.holds.value(),
        lease_ms: stored.lease_ms.value(),
        owner: stored.owner,
    };
    match Record::try_from(fields) {
        Ok(record) => {
            assert!(is_valid(&fields), "accepted: {fields:?}");
            assert_eq!(Fields::from(record), fields);
            check_record(record);
        }
        Err(_) => assert!(!is_valid(&fields), "refused: {fields:?}"),
    }
    if let Ok(record) = Record::decode(bytes) {
        let fields = Fields::from(record);
        assert!(is_valid(&fields), "decoded: {fields:?}");
        assert_eq!(Record::try_from(fields), Ok(record));
        check_record(record);
    }
    check_effect(bytes);
});

/// An effect is refused or makes a valid lock; one of another version gives its token at most.
fn check_effect(bytes: &[u8]) {
    match Held::from_effect(bytes) {
        Ok(held) => {
            assert!(is_valid(&Fields::from(held.record())), "applied: {held:?}");
            let mut buffer = EffectBuffer::new();
            let effect = held.effect(&mut buffer);
            assert_eq!(Held::from_effect(effect.bytes()), Ok(held));
            assert_eq!(Record::decode(effect.record()), Ok(held.record()));
            for length in 0..effect.bytes().len() - held.owner.bytes().len() {
                assert!(Held::from_effect(&bytes[..length]).is_err(), "no owner");
            }
        }
        Err(EffectError::Version(version, token)) => {
            assert_eq!(Some(version), bytes.first().map(|byte| byte & !QUIET));
            let known = [&[1], &bytes[1..]].concat();
            if let Ok(held) = Held::from_effect(&known) {
                assert_eq!(token, Some(held.grant.token));
            }
        }
        Err(EffectError::Damaged) => {
            assert!(bytes.first().is_none_or(|version| version & !QUIET == 1));
        }
        Err(EffectError::Mismatch) => panic!("an effect is read without a lock"),
    }
}

fn is_valid(fields: &Fields) -> bool {
    (1..TOKENS_END).contains(&fields.token)
        && (1..HOLDS_END).contains(&fields.holds)
        && (1..=MAX_LEASE_MS).contains(&fields.lease_ms)
        && (1..=MAX_OWNER).contains(&fields.owner.len())
}

/// A record is short and decodes to what was encoded; without its owner it is refused.
fn check_record(record: Record) {
    let mut buffer = RecordBuffer::new();
    let bytes = record.encode(&mut buffer);
    assert!(bytes.len() <= MAX_HEAD + record.owner.bytes().len());
    assert_eq!(Record::decode(bytes), Ok(record));
    let head = bytes.len() - record.owner.bytes().len();
    assert!(Record::decode(&bytes[..head]).is_err(), "no owner");
}
