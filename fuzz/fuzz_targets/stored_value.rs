//! Stored locks and effects: any fields and any bytes are refused or make a valid lock.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use redis_lock_core::{
    Deadline, EffectBuffer, EffectError, Holder, Limit, LockChange, StoredHolder,
};

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
/// The bit of the version for a quiet change.
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
    let fields = StoredHolder {
        limit: 1,
        end_ms: None,
        token: stored.token.value(),
        holds: stored.holds.value(),
        lease_ms: stored.lease_ms.value(),
        owner: stored.owner,
    };
    match Holder::try_from(fields) {
        Ok(holder) => {
            assert!(is_valid(&fields), "accepted: {fields:?}");
            assert_eq!(StoredHolder::from(holder), fields);
            check_record(holder);
        }
        Err(_) => assert!(!is_valid(&fields), "refused: {fields:?}"),
    }
    if let Some(holder) = read(bytes) {
        let fields = StoredHolder::from(holder);
        assert!(is_valid(&fields), "decoded: {fields:?}");
        assert_eq!(Holder::try_from(fields), Ok(holder));
        check_record(holder);
    }
    check_effect(bytes);
});

fn read(record: &[u8]) -> Option<Holder<'_>> {
    Holder::read(record, Limit::ONE, Deadline::Never)
}

/// An effect is refused or makes a valid lock; one of another version gives its token at most.
fn check_effect(bytes: &[u8]) {
    match LockChange::from_effect(bytes) {
        Ok(LockChange::Exclusive(holder)) => {
            assert!(is_valid(&StoredHolder::from(holder)), "applied: {holder:?}");
            let mut buffer = EffectBuffer::new();
            let effect = holder.effect(false, &mut buffer);
            let again = LockChange::from_effect(effect.bytes());
            assert_eq!(again, Ok(LockChange::Exclusive(holder)));
            let record = Holder::read(effect.record(), Limit::ONE, holder.end);
            assert_eq!(record, Some(holder));
            for length in 0..effect.bytes().len() - holder.owner.bytes().len() {
                assert!(
                    LockChange::from_effect(&bytes[..length]).is_err(),
                    "no owner"
                );
            }
        }
        // `stored_shares` checks these.
        Ok(LockChange::Shared(_)) => {}
        Ok(LockChange::Keep | LockChange::Free) => panic!("an effect is a state"),
        Err(EffectError::Version(version, token)) => {
            assert_eq!(Some(version), bytes.first().map(|byte| byte & !QUIET));
            let known = [&[1], &bytes[1..]].concat();
            if let Ok(LockChange::Exclusive(holder)) = LockChange::from_effect(&known) {
                assert_eq!(token, Some(holder.grant.token));
            }
        }
        Err(EffectError::Damaged) => {
            assert!(
                bytes
                    .first()
                    .is_none_or(|version| [1, 2].contains(&(version & !QUIET)))
            );
        }
        Err(EffectError::Mismatch) => panic!("an effect is read without a lock"),
    }
}

fn is_valid(fields: &StoredHolder) -> bool {
    (1..TOKENS_END).contains(&fields.token)
        && (1..HOLDS_END).contains(&fields.holds)
        && (1..=MAX_LEASE_MS).contains(&fields.lease_ms)
        && (1..=MAX_OWNER).contains(&fields.owner.len())
}

/// A record is short and decodes to what was encoded; without its owner it is refused.
fn check_record(holder: Holder) {
    let mut buffer = EffectBuffer::new();
    let bytes = holder.effect(false, &mut buffer).record();
    assert!(bytes.len() <= MAX_HEAD + holder.owner.bytes().len());
    let end = Deadline::Never;
    assert_eq!(
        Holder::read(bytes, Limit::ONE, end),
        Some(Holder { end, ..holder })
    );
    let head = bytes.len() - holder.owner.bytes().len();
    assert!(read(&bytes[..head]).is_none(), "no owner");
}
