//! The effect of a change of a shared lock.
//!
//! ```text
//! version    1 byte: 2, plus 128 for a quiet change
//! latest end 8 bytes: the expiry of the key after the change, in milliseconds since 1970
//! token      7 bytes: of the holder that joins, changes or leaves; the highest token seen if ended leases
//!            are removed
//! what       1 byte: the step (0 only, 1 put, 2 remove, 3 remove ended), plus 128 with a cap, plus 64 if all
//!            holders are rewritten and the key has no expiry yet
//! count      4 bytes: the number of holders after the change
//! cap        8 bytes, only with a cap
//! only, put: end 8 bytes, limit 4 bytes, record (`../holder.rs`)
//! ended:     8 bytes: the time before which the removed leases ended
//! ```
//! An effect contains at most one holder, so the server that applies it must have the other holders already. The order
//! of the stream ensures that: a file or a new replica begins with complete locks. A rewrite writes one effect for each
//! holder, and the first of them creates the lock ([`HolderSet::rewrite`]).

use super::{DEADLINE_BYTES, EffectBuffer, version_byte};
use crate::holder::{TOKEN_BYTES, Writer, number};
use crate::{Deadline, Holder, HolderSet, SharedChange, SharedStep, Token};

pub(super) const VERSION: u8 = 2;
pub(super) const HEAD: usize = 1 + DEADLINE_BYTES + TOKEN_BYTES + 1 + 4;

const ONLY: u8 = 0;
const PUT: u8 = 1;
const REMOVE: u8 = 2;
const REMOVE_ENDED: u8 = 3;
const CAP: u8 = 128;
const WHOLE: u8 = 64;

impl SharedChange<'_> {
    /// Writes the change into `buffer`. `seen` is the highest token that this server has seen.
    #[must_use]
    pub fn effect<'buffer>(
        &self,
        seen: Token,
        is_quiet: bool,
        buffer: &'buffer mut EffectBuffer,
    ) -> &'buffer [u8] {
        let (what, token) = match &self.step {
            SharedStep::Only(holder) => (ONLY, holder.grant.token),
            SharedStep::Put(holder) => (PUT, holder.grant.token),
            SharedStep::Remove(token) => (REMOVE, *token),
            SharedStep::RemoveEnded(_) => (REMOVE_ENDED, seen),
        };
        let mut writer = Writer {
            bytes: &mut buffer.0,
            length: 0,
        };
        writer.put(&[version_byte(VERSION, is_quiet)]);
        writer.put(&self.latest_end.to_le_bytes());
        writer.put(&token.number().to_le_bytes()[..TOKEN_BYTES]);
        let cap = if self.cap.is_some() { CAP } else { 0 };
        let whole = if self.whole { WHOLE } else { 0 };
        writer.put(&[what | cap | whole]);
        writer.put(&self.count.to_le_bytes());
        if let Some(cap) = self.cap {
            writer.put(&cap.to_le_bytes());
        }
        match &self.step {
            SharedStep::Only(holder) | SharedStep::Put(holder) => {
                writer.length += holder.write_shared(&mut writer.bytes[writer.length..]);
            }
            SharedStep::Remove(_) => {}
            SharedStep::RemoveEnded(before) => writer.put(&before.to_le_bytes()),
        }
        let length = writer.length;
        &buffer.0[..length]
    }
}

/// Reads an effect after its version; `None` if it is truncated or a field is out of range.
pub(super) fn read(bytes: &[u8]) -> Option<SharedChange<'_>> {
    let (latest_end, rest) = number::<DEADLINE_BYTES>(bytes)?;
    let (token, rest) = number::<TOKEN_BYTES>(rest)?;
    let (what, rest) = rest.split_first()?;
    let (count, rest) = rest.split_first_chunk::<4>()?;
    let (cap, rest) = if what & CAP == 0 {
        (None, rest)
    } else {
        let (cap, rest) = number::<8>(rest)?;
        (Some(cap), rest)
    };
    let token = Token::new(token)?;
    let with_token = || Holder::read_shared(rest).filter(|holder| holder.grant.token == token);
    let step = match what & !(CAP | WHOLE) {
        ONLY => SharedStep::Only(with_token()?),
        PUT => SharedStep::Put(with_token()?),
        REMOVE => SharedStep::Remove(token),
        REMOVE_ENDED => SharedStep::RemoveEnded(number::<8>(rest)?.0),
        _ => return None,
    };
    (latest_end <= Deadline::LAST).then_some(SharedChange {
        cap,
        step,
        count: u32::from_le_bytes(*count),
        latest_end,
        whole: what & WHOLE != 0,
    })
}

impl HolderSet {
    /// The changes that create the lock again, for a rewrite of the append-only file.
    pub fn rewrite(&self) -> impl Iterator<Item = SharedChange<'_>> {
        let (mut count, mut latest_end) = (0, 0);
        self.iter().map(move |holder| {
            count += 1;
            latest_end = holder.end.millis().max(latest_end);
            SharedChange {
                cap: None,
                step: if count == 1 {
                    SharedStep::Only(holder)
                } else {
                    SharedStep::Put(holder)
                },
                count,
                latest_end,
                whole: true,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EffectError, Grant, Holds, Lease, Limit, LockChange, Owner};

    const TOKEN: Token = Token::new(0x0006_0504_0302_0100).unwrap();

    fn holder() -> Holder<'static> {
        Holder {
            owner: Owner::new(b"web:7").unwrap(),
            grant: Grant {
                token: TOKEN,
                holds: Holds::ONE,
                lease: Lease::from_millis(30_000).unwrap(),
            },
            limit: Limit::new(5).unwrap(),
            end: Deadline::At(0x0102_0304_0506),
        }
    }

    fn change(step: SharedStep<'_>, cap: Option<u64>) -> SharedChange<'_> {
        SharedChange {
            cap,
            step,
            count: 3,
            latest_end: 0x0102_0304_0506,
            whole: false,
        }
    }

    fn steps() -> [(SharedStep<'static>, Option<u64>); 8] {
        [
            SharedStep::Only(holder()),
            SharedStep::Put(holder()),
            SharedStep::Remove(TOKEN),
            SharedStep::RemoveEnded(77),
        ]
        .map(|step| [(step, None), (step, Some(9))])
        .as_flattened()
        .try_into()
        .unwrap()
    }

    #[test]
    fn the_bytes_are_those_that_files_and_streams_hold() {
        let put = change(SharedStep::Put(holder()), None);
        let bytes = b"\x02\x06\x05\x04\x03\x02\x01\0\0\0\x01\x02\x03\x04\x05\x06\x01\x03\0\0\0\
            \x06\x05\x04\x03\x02\x01\0\0\x05\0\0\0\0\x01\x02\x03\x04\x05\x06\x30\x75\0web:7";
        assert_eq!(
            put.effect(Token::MAX, false, &mut EffectBuffer::new()),
            bytes
        );
        let ended = change(SharedStep::RemoveEnded(77), Some(9));
        let bytes = b"\x02\x06\x05\x04\x03\x02\x01\0\0\xff\xff\xff\xff\xff\xff\x1f\x83\x03\0\0\0\
            \x09\0\0\0\0\0\0\0\x4d\0\0\0\0\0\0\0";
        assert_eq!(
            ended.effect(Token::MAX, false, &mut EffectBuffer::new()),
            bytes
        );
    }

    #[test]
    fn every_change_is_read_as_written_and_refused_when_truncated() {
        for (step, cut) in steps() {
            let change = change(step, cut);
            let mut buffer = EffectBuffer::new();
            let bytes = change.effect(TOKEN, false, &mut buffer);
            assert_eq!(
                LockChange::from_effect(bytes),
                Ok(LockChange::Shared(change))
            );
            let owner = if matches!(step, SharedStep::Only(_) | SharedStep::Put(_)) {
                4
            } else {
                0
            };
            for length in 0..bytes.len() - owner {
                assert_eq!(
                    LockChange::from_effect(&bytes[..length]),
                    Err(EffectError::Damaged),
                    "{step:?} cut to {length}"
                );
            }
        }
    }

    #[test]
    fn version_1_learns_of_the_token_and_refuses() {
        for (step, cut) in steps() {
            let mut buffer = EffectBuffer::new();
            let bytes = change(step, cut).effect(TOKEN, false, &mut buffer);
            let refused = Err(EffectError::Version(VERSION, Some(TOKEN)));
            assert_eq!(Holder::from_effect(bytes), refused);
        }
        assert_ne!(VERSION, super::super::VERSION);
    }

    #[test]
    fn effects_that_no_primary_sends_are_refused() {
        let mut buffer = EffectBuffer::new();
        let whole = change(SharedStep::Put(holder()), None)
            .effect(TOKEN, false, &mut buffer)
            .to_vec();
        let with = |at: usize, byte: u8| {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            bytes
        };
        for (bytes, what) in [
            (with(8, 0x80), "an end before 1970"),
            (with(9, 1), "two tokens"),
            (with(16, 4), "an unknown step"),
            (with(28, 0x80), "a holder's end before 1970"),
            (with(32, 0x80), "a limit above the highest"),
        ] {
            let read = LockChange::from_effect(&bytes);
            assert_eq!(read, Err(EffectError::Damaged), "{what}");
        }
    }
}
