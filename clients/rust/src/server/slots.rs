//! Which slot of a cluster a key belongs to.

use crc::{CRC_16_XMODEM, Crc};

/// How many slots there are.
const SLOTS: u16 = 16_384;

/// The slot of a key: of the part within its first pair of braces, where that is not empty.
pub(crate) fn slot(key: &[u8]) -> u16 {
    const CHECKSUM: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);
    CHECKSUM.checksum(hash_tag(key)) % SLOTS
}

fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else {
        return key;
    };
    let rest = &key[open + 1..];
    match rest.iter().position(|byte| *byte == b'}') {
        Some(length) if length > 0 => &rest[..length],
        _ => key,
    }
}

#[cfg(test)]
mod tests {
    use super::slot;

    #[test]
    fn keys_have_the_slots_that_a_server_gives_them() {
        for key in [
            "foo", "", "{foo}bar", "a{}b", "}a{b}", "{a", "x{a}{b}", "ключ",
        ] {
            assert_eq!(slot(key.as_bytes()), testbed::cluster::slot(key), "{key}");
        }
    }
}
