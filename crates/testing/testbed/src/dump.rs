//! `DUMP` payloads taken apart and sealed again, so that a changed one still has a valid checksum
//! and reaches the module's loader.
//!
//! A payload is the value as in an RDB file, then the RDB version (2 bytes) and a CRC-64 of all
//! before it (8 bytes), both little-endian.

use crc::{CRC_64_REDIS, Crc};

const VERSION_LEN: usize = 2;
const CHECKSUM_LEN: usize = 8;

/// The value of a payload without its footer, and the RDB version that the footer names.
///
/// # Panics
/// When the payload is too short or its checksum is wrong.
#[track_caller]
pub fn split(payload: &[u8]) -> (Vec<u8>, u16) {
    let (value, footer) = payload
        .split_last_chunk::<{ VERSION_LEN + CHECKSUM_LEN }>()
        .expect("a payload has a footer");
    let version = u16::from_le_bytes([footer[0], footer[1]]);
    assert_eq!(reseal(value, version), payload, "the payload's checksum");
    (value.to_vec(), version)
}

/// A payload of this value, with the footer that `RESTORE` asks for.
pub fn reseal(value: &[u8], rdb_version: u16) -> Vec<u8> {
    let mut payload = value.to_vec();
    payload.extend(rdb_version.to_le_bytes());
    let checksum = Crc::<u64>::new(&CRC_64_REDIS).checksum(&payload);
    payload.extend(checksum.to_le_bytes());
    payload
}
