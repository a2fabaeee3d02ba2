//! Effects: the encoding of a change of a lock for replicas and the append-only file, as one argument of a command.
//!
//! If the lock is exclusive after the change, the effect has version 1:
//!
//! ```text
//! version  1 byte: 1, plus 128 for a quiet change
//! deadline 8 bytes: milliseconds since 1970, or -1 for none
//! record   the rest: token, lease, holds and owner, as in memory
//! ```
//! A change of a shared lock has version 2 (`shared.rs`). Numbers are little-endian. The token is at the same place in
//! every version, so that a server that does not know the version still learns the token.

mod shared;

use std::fmt;

use super::holder::{self, MAX_RECORD, MAX_SHARED};
use super::{Deadline, Holder, Limit, LockChange, Token};

const VERSION: u8 = 1;
/// Added to the version for a quiet change. That is the server's own renewal of a grant in a session, of which clients
/// are not notified.
const QUIET: u8 = 128;
const DEADLINE_BYTES: usize = 8;
const HEAD: usize = 1 + DEADLINE_BYTES;
const NO_DEADLINE: i64 = -1;
const MAX_EFFECT: usize = if HEAD + MAX_RECORD > shared::HEAD + 8 + MAX_SHARED {
    HEAD + MAX_RECORD
} else {
    shared::HEAD + 8 + MAX_SHARED
};

/// Returns true if clients are not notified of the change in this effect.
#[must_use]
pub fn is_quiet(effect: &[u8]) -> bool {
    effect.first().is_some_and(|version| version & QUIET != 0)
}

const fn version_byte(version: u8, is_quiet: bool) -> u8 {
    if is_quiet { version | QUIET } else { version }
}

/// A buffer for any effect.
#[derive(Debug)]
pub struct EffectBuffer([u8; MAX_EFFECT]);

impl EffectBuffer {
    /// An empty buffer.
    #[must_use]
    pub const fn new() -> Self {
        Self([0; MAX_EFFECT])
    }
}

impl Default for EffectBuffer {
    fn default() -> Self {
        Self::new()
    }
}

/// The effect of a change after which the lock is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect<'a>(&'a [u8]);

impl<'a> Effect<'a> {
    /// The whole effect.
    #[must_use]
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The record in the effect, which becomes the value of the key.
    #[must_use]
    pub fn record(self) -> &'a [u8] {
        &self.0[HEAD..]
    }
}

/// Why an effect cannot be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectError {
    /// The effect has this unknown version and this token.
    Version(u8, Option<Token>),
    /// The effect is truncated, or a field is out of range.
    Damaged,
    /// The effect does not fit the lock.
    Mismatch,
}

impl fmt::Display for EffectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version, _) => write!(
                f,
                "effect of version {version} (this version of the module reads only versions {VERSION} and {})",
                shared::VERSION
            ),
            Self::Damaged => f.write_str("truncated or damaged effect"),
            Self::Mismatch => f.write_str("effect that was made for another state of the lock"),
        }
    }
}

impl<'a> Holder<'a> {
    /// Writes the effect of an exclusive lock with this holder into `buffer`.
    #[must_use]
    pub fn effect<'buffer>(
        &self,
        is_quiet: bool,
        buffer: &'buffer mut EffectBuffer,
    ) -> Effect<'buffer> {
        let deadline = match self.end {
            Deadline::At(at) => i64::try_from(at).unwrap_or(i64::MAX),
            Deadline::Never => NO_DEADLINE,
        };
        let (head, rest) = buffer.0.split_at_mut(HEAD);
        head[0] = version_byte(VERSION, is_quiet);
        head[1..].copy_from_slice(&deadline.to_le_bytes());
        let length = HEAD + self.write(rest);
        Effect(&buffer.0[..length])
    }

    /// Reads an effect of an exclusive lock.
    fn from_effect(effect: &'a [u8]) -> Result<Self, EffectError> {
        let (version, rest) = effect.split_first().ok_or(EffectError::Damaged)?;
        let fields = rest.split_first_chunk::<DEADLINE_BYTES>();
        if *version & !QUIET != VERSION {
            let token = fields.and_then(|(_, record)| holder::token_of(record));
            return Err(EffectError::Version(*version & !QUIET, token));
        }
        let (deadline, record) = fields.ok_or(EffectError::Damaged)?;
        let end = match i64::from_le_bytes(*deadline) {
            NO_DEADLINE => Deadline::Never,
            at @ 0.. => Deadline::At(at.unsigned_abs()),
            _ => return Err(EffectError::Damaged),
        };
        Self::read(record, Limit::ONE, end).ok_or(EffectError::Damaged)
    }
}

impl<'a> LockChange<'a> {
    /// Reads an effect of any known version.
    ///
    /// # Errors
    ///
    /// [`EffectError`] if the bytes are not an effect of a known version.
    pub fn from_effect(bytes: &'a [u8]) -> Result<Self, EffectError> {
        match bytes {
            [version, rest @ ..] if *version & !QUIET == shared::VERSION => shared::read(rest)
                .map(Self::Shared)
                .ok_or(EffectError::Damaged),
            _ => Holder::from_effect(bytes).map(Self::Exclusive),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Grant, Holds, Lease, Owner};

    const LAST: u64 = i64::MAX.unsigned_abs();

    fn deadlines() -> impl Strategy<Value = Deadline> {
        prop_oneof![
            Just(Deadline::Never),
            Just(Deadline::At(LAST)),
            (0..=LAST).prop_map(Deadline::At)
        ]
    }

    prop_compose! {
        fn locks()(
            owner in prop::collection::vec(any::<u8>(), 1..=Owner::MAX),
            token in 1..=Token::MAX.number(),
            holds in prop_oneof![Just(1), 1..=Holds::MAX.number()],
            lease in prop_oneof![1..=100_000_u64, 1..=Lease::MAX.millis()],
            deadline in deadlines(),
        ) -> (Vec<u8>, Grant, Deadline) {
            let grant = Grant {
                token: Token::new(token).unwrap(),
                holds: Holds::new(holds).unwrap(),
                lease: Lease::from_millis(lease).unwrap(),
            };
            (owner, grant, deadline)
        }
    }

    fn holder((owner, grant, deadline): &(Vec<u8>, Grant, Deadline)) -> Holder<'_> {
        Holder {
            owner: Owner::new(owner).unwrap(),
            grant: *grant,
            limit: Limit::ONE,
            end: *deadline,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 16 } else { 256 }))]

        #[test]
        fn every_lock_is_read_as_it_was_written(lock in locks()) {
            let mut buffer = EffectBuffer::new();
            let effect = holder(&lock).effect(false, &mut buffer);
            prop_assert_eq!(Holder::from_effect(effect.bytes()), Ok(holder(&lock)));
            prop_assert_eq!(Holder::read(effect.record(), Limit::ONE, lock.2), Some(holder(&lock)));
        }

        #[test]
        fn what_is_cut_off_before_the_owner_is_refused(lock in locks(), at in any::<prop::sample::Index>()) {
            let mut buffer = EffectBuffer::new();
            let whole = holder(&lock).effect(false, &mut buffer).bytes();
            let cut = &whole[..at.index(whole.len() - lock.0.len() + 1)];
            prop_assert_eq!(Holder::from_effect(cut), Err(EffectError::Damaged));
        }

        #[test]
        fn another_version_is_refused_and_its_token_told(lock in locks(), version in any::<u8>(), more in any::<[u8; 4]>()) {
            prop_assume!(version & !QUIET != VERSION);
            let mut buffer = EffectBuffer::new();
            let mut bytes = holder(&lock).effect(false, &mut buffer).bytes().to_vec();
            bytes[0] = version;
            bytes.extend(more);
            let token = Some(lock.1.token);
            let version = version & !QUIET;
            prop_assert_eq!(Holder::from_effect(&bytes), Err(EffectError::Version(version, token)));
            for length in 1..HEAD {
                let cut = Holder::from_effect(&bytes[..length]);
                prop_assert_eq!(cut, Err(EffectError::Version(version, None)));
            }
        }

        #[test]
        fn a_changed_byte_is_refused_or_makes_another_sound_lock(
            lock in locks(),
            at in any::<prop::sample::Index>(),
            change in 1..=u8::MAX,
        ) {
            let mut buffer = EffectBuffer::new();
            let mut bytes = holder(&lock).effect(false, &mut buffer).bytes().to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= change;
            if let Ok(changed) = Holder::from_effect(&bytes) {
                let loudness = is_quiet(&bytes);
                prop_assert!(loudness || changed != holder(&lock));
            }
        }

        #[test]
        fn any_bytes_are_refused_or_mean_what_they_say(
            mut bytes in prop::collection::vec(any::<u8>(), 0..300),
            known in any::<bool>(),
        ) {
            if let (Some(version), true) = (bytes.first_mut(), known) {
                *version = VERSION;
            }
            if let Ok(lock) = Holder::from_effect(&bytes) {
                let mut buffer = EffectBuffer::new();
                prop_assert_eq!(Holder::from_effect(lock.effect(false, &mut buffer).bytes()), Ok(lock));
            }
        }
    }

    #[test]
    fn the_bytes_are_those_that_files_and_streams_hold() {
        let lock = |holds, lease, deadline| {
            let lock = (
                b"web:7".to_vec(),
                Grant {
                    token: Token::new(0x0006_0504_0302_0100).unwrap(),
                    holds: Holds::new(holds).unwrap(),
                    lease: Lease::from_millis(lease).unwrap(),
                },
                deadline,
            );
            holder(&lock)
                .effect(false, &mut EffectBuffer::new())
                .bytes()
                .to_vec()
        };
        assert_eq!(
            lock(1, 30_000, Deadline::At(0x0102_0304_0506)),
            b"\x01\x06\x05\x04\x03\x02\x01\0\0\0\x01\x02\x03\x04\x05\x06\x30\x75\0web:7"
        );
        assert_eq!(
            lock(2, 30_000, Deadline::Never),
            b"\x01\xff\xff\xff\xff\xff\xff\xff\xff\0\x01\x02\x03\x04\x05\x86\x30\x75\0\0\0\x02\0\0\0web:7"
        );
    }

    #[test]
    fn a_deadline_before_1970_is_damaged() {
        let lock = (
            b"o".to_vec(),
            Grant {
                token: Token::MAX,
                holds: Holds::ONE,
                lease: Lease::MAX,
            },
            Deadline::Never,
        );
        let mut buffer = EffectBuffer::new();
        let mut bytes = holder(&lock).effect(false, &mut buffer).bytes().to_vec();
        bytes[1] = 0xfe;
        assert_eq!(Holder::from_effect(&bytes), Err(EffectError::Damaged));
    }
}
