//! A change of the shares of a lock as one argument of a command: what replicas and the append-only file
//! get. A lock that becomes one of limit 1 is an effect of version 1 (`../effect.rs`), byte for byte as
//! without sharing.
//!
//! ```text
//! version    1 byte: 2, plus 128 where nobody is told of the change
//! latest end 8 bytes: the expiry of the key afterwards, in milliseconds since 1970
//! token      7 bytes: of the share that comes, changes or goes; the highest that there is, where those
//!            that have ended go
//! what       1 byte: the step (0 only, 1 put, 2 remove, 3 remove the ended), plus 128 with a cut, plus 64
//!            where the lock is written whole and the key has no expiry
//! count      4 bytes: the shares afterwards
//! cut        8 bytes, if there is one
//! only, put: end 8 bytes, limit 4 bytes, record (`../record.rs`)
//! ended:     8 bytes: the time before which they ended
//! ```
//! Numbers are little-endian. The token is where every version has it.
//!
//! The effect holds one share, however many there are: what a lock was must be there where it is
//! applied. The server keeps that order: a file or a new replica begins with whole locks, and a lock is
//! rewritten as one effect for each share, the first of which starts it anew ([`Shares::rewrite`]).

use super::change::{ShareChange, Step, Transition};
use super::share::{LAST_END, MAX_SHARE, Share};
use super::shares::Shares;
use crate::effect::{DEADLINE_BYTES, QUIET, SHARES_VERSION as VERSION};
use crate::record::{TOKEN_BYTES, Writer, number};
use crate::{EffectError, Held, Token};

const HEAD: usize = 1 + DEADLINE_BYTES + TOKEN_BYTES + 1 + 4;
const MAX: usize = HEAD + 8 + MAX_SHARE;

const ONLY: u8 = 0;
const PUT: u8 = 1;
const REMOVE: u8 = 2;
const REMOVE_ENDED: u8 = 3;
const CUT: u8 = 128;
const WHOLE: u8 = 64;

/// A buffer that any change of shares fits in.
#[derive(Debug)]
pub struct ShareEffectBuffer([u8; MAX]);

impl ShareEffectBuffer {
    /// An empty buffer.
    #[must_use]
    pub const fn new() -> Self {
        Self([0; MAX])
    }
}

impl Default for ShareEffectBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> ShareChange<'a> {
    /// Writes the change into `buffer`. `seen` is the last token that the clock has seen: where shares
    /// have ended it stands for theirs.
    #[must_use]
    pub fn effect<'buffer>(
        &self,
        seen: Token,
        buffer: &'buffer mut ShareEffectBuffer,
    ) -> &'buffer [u8] {
        self.write_effect(VERSION, seen, buffer)
    }

    /// As [`ShareChange::effect`], for a change of which nobody is told.
    #[must_use]
    pub fn quiet_effect<'buffer>(
        &self,
        seen: Token,
        buffer: &'buffer mut ShareEffectBuffer,
    ) -> &'buffer [u8] {
        self.write_effect(VERSION | QUIET, seen, buffer)
    }

    fn write_effect<'buffer>(
        &self,
        version: u8,
        seen: Token,
        buffer: &'buffer mut ShareEffectBuffer,
    ) -> &'buffer [u8] {
        let (what, token) = match &self.step {
            Step::Only(share) => (ONLY, share.grant.token),
            Step::Put(share) => (PUT, share.grant.token),
            Step::Remove(token) => (REMOVE, *token),
            Step::RemoveEnded(_) => (REMOVE_ENDED, seen),
        };
        let mut writer = Writer {
            bytes: &mut buffer.0,
            length: 0,
        };
        writer.put(&[version]);
        writer.put(&self.latest_end.to_le_bytes());
        writer.put(&token.number().to_le_bytes()[..TOKEN_BYTES]);
        let cut = if self.cut.is_some() { CUT } else { 0 };
        let whole = if self.whole { WHOLE } else { 0 };
        writer.put(&[what | cut | whole]);
        writer.put(&self.count.to_le_bytes());
        if let Some(cut) = self.cut {
            writer.put(&cut.to_le_bytes());
        }
        let mut length = writer.length;
        match &self.step {
            Step::Only(share) | Step::Put(share) => length += share.write(&mut buffer.0[length..]),
            Step::Remove(_) => {}
            Step::RemoveEnded(before) => {
                buffer.0[length..length + 8].copy_from_slice(&before.to_le_bytes());
                length += 8;
            }
        }
        &buffer.0[..length]
    }

    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (latest_end, rest) = number::<DEADLINE_BYTES>(bytes).ok()?;
        let (token, rest) = number::<TOKEN_BYTES>(rest).ok()?;
        let (what, rest) = rest.split_first()?;
        let (count, rest) = rest.split_first_chunk::<4>()?;
        let (cut, rest) = if what & CUT == 0 {
            (None, rest)
        } else {
            let (cut, rest) = number::<8>(rest).ok()?;
            (Some(cut), rest)
        };
        let token = Token::new(token)?;
        let with_token = || Share::read(rest).filter(|share| share.grant.token == token);
        let step = match what & !(CUT | WHOLE) {
            ONLY => Step::Only(with_token()?),
            PUT => Step::Put(with_token()?),
            REMOVE => Step::Remove(token),
            REMOVE_ENDED => Step::RemoveEnded(number::<8>(rest).ok()?.0),
            _ => return None,
        };
        (latest_end <= LAST_END).then_some(Self {
            cut,
            step,
            count: u32::from_le_bytes(*count),
            latest_end,
            whole: what & WHOLE != 0,
        })
    }
}

impl<'a> Transition<'a> {
    /// Reads an effect of any version that is known.
    ///
    /// # Errors
    ///
    /// [`EffectError`] when it is none, or one of another version.
    pub fn from_effect(bytes: &'a [u8]) -> Result<Self, EffectError> {
        match bytes {
            [version, rest @ ..] if *version & !QUIET == VERSION => {
                let change = ShareChange::read(rest).ok_or(EffectError::Damaged)?;
                Ok(Self::Share(change))
            }
            _ => Held::from_effect(bytes).map(Self::Alone),
        }
    }

    /// The highest token that the change tells of: the token clock takes note of it.
    #[must_use]
    pub const fn token(&self) -> Option<Token> {
        match self {
            Self::Alone(held) => Some(held.grant.token),
            Self::Share(ShareChange {
                step: Step::Only(share) | Step::Put(share),
                ..
            }) => Some(share.grant.token),
            Self::Share(ShareChange {
                step: Step::Remove(token),
                ..
            }) => Some(*token),
            Self::Keep | Self::Free | Self::Share(_) => None,
        }
    }
}

impl Shares {
    /// The lock as changes that make it anew, wherever it is written whole.
    pub fn rewrite(&self) -> impl Iterator<Item = ShareChange<'_>> {
        let (mut count, mut latest_end) = (0, 0);
        self.iter().map(move |share| {
            count += 1;
            latest_end = share.end.max(latest_end);
            ShareChange {
                cut: None,
                step: if count == 1 {
                    Step::Only(share)
                } else {
                    Step::Put(share)
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
    use crate::{Grant, Holds, Lease, Limit, Owner};

    const TOKEN: Token = Token::new(0x0006_0504_0302_0100).unwrap();

    fn share() -> Share<'static> {
        Share {
            owner: Owner::new(b"web:7").unwrap(),
            grant: Grant {
                token: TOKEN,
                holds: Holds::ONE,
                lease: Lease::from_millis(30_000).unwrap(),
            },
            limit: Limit::new(5).unwrap(),
            end: 0x0102_0304_0506,
        }
    }

    fn change(step: Step<'_>, cut: Option<u64>) -> ShareChange<'_> {
        ShareChange {
            cut,
            step,
            count: 3,
            latest_end: 0x0102_0304_0506,
            whole: false,
        }
    }

    fn steps() -> [(Step<'static>, Option<u64>); 8] {
        [
            Step::Only(share()),
            Step::Put(share()),
            Step::Remove(TOKEN),
            Step::RemoveEnded(77),
        ]
        .map(|step| [(step, None), (step, Some(9))])
        .as_flattened()
        .try_into()
        .unwrap()
    }

    #[test]
    fn the_bytes_are_those_that_files_and_streams_hold() {
        let put = change(Step::Put(share()), None);
        let bytes = b"\x02\x06\x05\x04\x03\x02\x01\0\0\0\x01\x02\x03\x04\x05\x06\x01\x03\0\0\0\
            \x06\x05\x04\x03\x02\x01\0\0\x05\0\0\0\0\x01\x02\x03\x04\x05\x06\x30\x75\0web:7";
        assert_eq!(put.effect(Token::MAX, &mut ShareEffectBuffer::new()), bytes);
        let ended = change(Step::RemoveEnded(77), Some(9));
        let bytes = b"\x02\x06\x05\x04\x03\x02\x01\0\0\xff\xff\xff\xff\xff\xff\x1f\x83\x03\0\0\0\
            \x09\0\0\0\0\0\0\0\x4d\0\0\0\0\0\0\0";
        assert_eq!(
            ended.effect(Token::MAX, &mut ShareEffectBuffer::new()),
            bytes
        );
    }

    #[test]
    fn every_change_is_read_as_it_was_written_and_not_when_it_is_cut_off() {
        for (step, cut) in steps() {
            let change = change(step, cut);
            let mut buffer = ShareEffectBuffer::new();
            let bytes = change.effect(TOKEN, &mut buffer);
            assert_eq!(
                Transition::from_effect(bytes),
                Ok(Transition::Share(change))
            );
            let owner = if matches!(step, Step::Only(_) | Step::Put(_)) {
                4
            } else {
                0
            };
            for length in 0..bytes.len() - owner {
                assert_eq!(
                    Transition::from_effect(&bytes[..length]),
                    Err(EffectError::Damaged),
                    "{step:?} cut to {length}"
                );
            }
        }
    }

    #[test]
    fn a_lock_that_is_written_whole_has_its_expiry_after_it() {
        let mut shares = Shares::one(&share());
        shares.put(&Share {
            owner: Owner::new(b"web:8").unwrap(),
            grant: Grant {
                token: Token::MAX,
                ..share().grant
            },
            ..share()
        });
        let mut read = None;
        for change in shares.rewrite() {
            assert_eq!(change.expiry(), crate::Deadline::Never);
            let mut buffer = ShareEffectBuffer::new();
            let effect = Transition::from_effect(change.effect(TOKEN, &mut buffer));
            assert_eq!(effect, Ok(Transition::Share(change)));
            let new = change.apply(read.as_mut()).unwrap();
            read = new.or(read);
        }
        assert!(read.unwrap().iter().eq(shares.iter()));
    }

    #[test]
    fn version_1_learns_of_the_token_and_refuses() {
        for (step, cut) in steps() {
            let mut buffer = ShareEffectBuffer::new();
            let bytes = change(step, cut).effect(TOKEN, &mut buffer);
            let refused = Err(EffectError::Version(VERSION, Some(TOKEN)));
            assert_eq!(Held::from_effect(bytes), refused);
        }
        assert_ne!(VERSION, crate::effect::VERSION);
    }

    #[test]
    fn what_no_primary_sends_is_refused() {
        let mut buffer = ShareEffectBuffer::new();
        let whole = change(Step::Put(share()), None)
            .effect(TOKEN, &mut buffer)
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
            (with(28, 0x80), "a share's end before 1970"),
            (with(32, 0x80), "a limit above the highest"),
        ] {
            let read = Transition::from_effect(&bytes);
            assert_eq!(read, Err(EffectError::Damaged), "{what}");
        }
    }
}
